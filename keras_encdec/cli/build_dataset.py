"""build_dataset: builds the packaged phrase table from Debian's packages of LibreOffice."""

import dataclasses

from absl import logging

from keras_encdec.cli.task_command import Arguments, task_command
from keras_encdec.configuration import Configuration, hyperparameter


@dataclasses.dataclass(frozen=True)
class BuildOptions(Configuration):
    """Options of the command."""

    held_out: int = hyperparameter(1000, "Sentence pairs in each of the two held-out sets.", minimum=1)
    seed: int = hyperparameter(1, "Random seed that the held-out sentences are drawn with.")


def main(arguments: Arguments, options: BuildOptions) -> None:
    """Builds the dataset as the flags say."""
    from keras_encdec.datasets.build import build

    logging.set_verbosity(logging.INFO)
    build(**arguments, **options.to_dict())


COMMAND = task_command(
    "build_dataset",
    main,
    BuildOptions,
    required={
        "debs": "Directory with the .deb files of the three LibreOffice packages.",
        "output": "Directory to write phrase-table.gz, the training text and the held-out sets to.",
    },
)

if __name__ == "__main__":
    COMMAND.run()
