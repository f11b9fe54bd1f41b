"""encdec-dictionary: writes each word's most frequent translation in word-aligned text, to replace unknown words by."""

import sys

from absl import flags

from keras_encdec.cli.command import Command
from keras_encdec.cli.usage_error import UsageError


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-dictionary`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_string("source", None, "Source sentences, one per line; needs the target.", **define)
    flags.DEFINE_string("target", None, "Target sentences, aligned line by line with the source.", **define)
    flags.DEFINE_string(
        "tsv", None, "Instead of both: pairs of source, tab, target; further columns are ignored.", **define
    )
    flags.DEFINE_string(
        "alignment", None,
        "Word alignment of the pairs, lines of links such as 0-0 1-2, source-target in the order of the files. "
        "Default: the pairs are aligned by sil-thot.",
        **define,
    )  # fmt: skip
    flags.DEFINE_string(
        "output", None,
        "File to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard output.",
        **define,
    )  # fmt: skip
    flags.DEFINE_integer(
        "min_count", 2,
        "Leave out words that are aligned to their translation less often. The paper has 100, for 12 million pairs.",
        lower_bound=1, **define,
    )  # fmt: skip
    flags.DEFINE_bool("tokenize", False, "The text is raw: normalize and tokenize it, as for the model.", **define)
    flags.DEFINE_bool("lowercase", False, "Fold case when tokenizing.", **define)
    flags.DEFINE_bool(
        "reverse", False, "Translate target words into source words, for a model that was trained so.", **define
    )
    flags.DEFINE_string(
        "encoding", None, "Encoding of text and output. Default: UTF-8, and other bytes are an error.", **define
    )
    flags.DEFINE_enum(
        "on_error", "stop", ["stop", "keep"],
        "A malformed line stops the command, or (keep) is left out and counted.", **define,
    )  # fmt: skip


def main(flag_values: flags.FlagValues) -> None:
    """Makes a dictionary as the flags say."""
    from keras_encdec.progress import ReadingProgress
    from keras_encdec.smt.dictionary import write_dictionary

    given = [name for name in ("source", "target", "tsv") if flag_values[name].value]
    if given not in (["source", "target"], ["tsv"]):
        found = " and ".join(f"--{name}" for name in given) or "no text"
        raise UsageError(f"found {found}, expected --source with --target, or --tsv.")
    if flag_values.lowercase and not flag_values.tokenize:
        raise UsageError("found --lowercase without --tokenize: text in tokens is taken as it is.")
    summary = write_dictionary(
        flag_values.tsv or flag_values.target,
        flag_values.output,
        "tsv" if flag_values.tsv else "parallel",
        source=flag_values.source,
        tokenization={"lowercase": flag_values.lowercase} if flag_values.tokenize else None,
        progress=ReadingProgress,
        **{name: flag_values[name].value for name in ("alignment", "min_count", "reverse", "encoding", "on_error")},
    )
    print(summary, file=sys.stderr)


COMMAND = Command("encdec-dictionary", define_flags, main, required=("output",))

if __name__ == "__main__":
    COMMAND.run()
