"""build_model: trains the small model that comes with the package, on the phrase table that comes with it."""

import dataclasses

from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.task_command import Arguments, show_summary, task_command
from keras_encdec.configuration import Configuration, hyperparameter


@dataclasses.dataclass(frozen=True)
class BuildModelOptions(Configuration):
    """Options of the command."""

    epochs: float = hyperparameter(7.0, "Passes over the pairs.", above=0)


def main(arguments: Arguments, options: BuildModelOptions) -> None:
    """Makes the model as the flags say."""
    import_keras()
    from keras_encdec.datasets.packaged_model import build_packaged_model

    show_summary(build_packaged_model(**arguments, **options.to_dict()))


COMMAND = task_command(
    "build_model",
    main,
    BuildModelOptions,
    required={
        "work_dir": "Directory to train in; a training run that was stopped there continues.",
        "output": "Model directory to write, which must not exist.",
    },
)

if __name__ == "__main__":
    COMMAND.run()
