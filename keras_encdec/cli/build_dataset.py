"""build_dataset: builds the packaged phrase table from Debian's packages of LibreOffice."""

from typing import Any

from absl import flags, logging

from keras_encdec.cli.command import Command


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of the command."""
    define: dict[str, Any] = {"flag_values": flag_values}
    flags.DEFINE_string("debs", None, "Directory with the .deb files of the three LibreOffice packages.", **define)
    flags.DEFINE_string("output", None, "Directory to write phrase-table.gz and the held-out sets to.", **define)
    flags.DEFINE_integer("held_out", 1000, "Sentence pairs in each of the two held-out sets.", lower_bound=1, **define)
    flags.DEFINE_integer("seed", 1, "Random seed that the held-out sentences are drawn with.", **define)


def main(flag_values: flags.FlagValues) -> None:
    """Builds the dataset as the flags say."""
    from keras_encdec.datasets.build import build

    logging.set_verbosity(logging.INFO)
    build(flag_values.debs, flag_values.output, flag_values.held_out, flag_values.seed)


COMMAND = Command("build_dataset", define_flags, main, required=("debs", "output"))

if __name__ == "__main__":
    COMMAND.run()
