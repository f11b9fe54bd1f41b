"""encdec-verify: compares the scores of an exported model with those of the model it was made from."""

import sys

from absl import flags

from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.tensorflow_backend import import_keras_on_tensorflow
from keras_encdec.formats import ColumnKind, format_names

BACKENDS = ["tensorflow", "jax", "torch"]


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of encdec-verify."""
    own = {"flag_values": flag_values}
    flags.DEFINE_string("model_dir", None, "Directory of the model.", **own)
    flags.DEFINE_string("export_dir", None, "Folder of its exported versions.", **own)
    flags.DEFINE_integer("version", None, "Version to compare. Default: the newest.", 1, **own)
    flags.DEFINE_string(
        "input",
        None,
        "Pairs to score. Default: half of them from the phrase table that comes with the package, half random "
        "sequences of the model's words.",
        **own,
    )
    formats = format_names(ColumnKind.LOG_PROB, has_source_file=False)
    flags.DEFINE_enum("format", "tsv", formats, "Format of the input.", **own)
    flags.DEFINE_string("encoding", None, "Encoding of the input. Default: UTF-8.", **own)
    flags.DEFINE_integer("pairs", 1000, "How many of the first pairs to compare.", 1, **own)
    flags.DEFINE_list(
        "backends", [], "Compare what encdec-score gives on these backends too: tensorflow, jax, torch.", **own
    )


def main(flag_values: flags.FlagValues) -> None:
    """Compares as the flags say."""
    unknown = [backend for backend in flag_values.backends if backend not in BACKENDS]
    if unknown:
        raise UsageError(f"found the backend {unknown[0]!r}, expected some of {', '.join(BACKENDS)}.")
    import_keras_on_tensorflow()
    from keras_encdec.datasets import libreoffice_en_fr
    from keras_encdec.export import verify_export
    from keras_encdec.export.comparison import read_pairs

    number = flag_values.pairs
    if flag_values.input:
        pairs, malformed = read_pairs(flag_values.input, flag_values.format, flag_values.encoding, number)
        made_pairs = 0
    else:
        pairs, malformed = read_pairs(libreoffice_en_fr().phrase_table, "phrase_table", number=number // 2)
        made_pairs = number - len(pairs)
    if malformed:
        print(f"{malformed:,} malformed lines were left out.", file=sys.stderr)
    report = verify_export(
        flag_values.model_dir,
        flag_values.export_dir,
        flag_values["version"].value,
        pairs,
        made_pairs,
        flag_values.backends,
    )
    for comparison in report.comparisons:
        print(comparison)


COMMAND = Command("encdec-verify", define_flags, main, required=("model_dir", "export_dir"))

if __name__ == "__main__":
    COMMAND.run()
