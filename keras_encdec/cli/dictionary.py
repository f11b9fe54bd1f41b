"""encdec-dictionary: writes each word's most frequent translation in word-aligned text, to replace unknown words by."""

import sys

from absl import flags

from keras_encdec.cli.command import Command
from keras_encdec.cli.flags import define_text_flags, define_tokenization_flags, text_arguments, tokenization


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-dictionary`."""
    define = {"flag_values": flag_values}
    define_text_flags(flag_values)
    flags.DEFINE_string(
        "alignment",
        None,
        "Word alignment of the pairs, lines of links such as 0-0 1-2, source-target in the order of the files. "
        "Default: the pairs are aligned by sil-thot.",
        **define,
    )
    flags.DEFINE_string(
        "output",
        None,
        "File to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard output.",
        **define,
    )
    flags.DEFINE_integer(
        "min_count",
        2,
        "Leave out words that are aligned to their translation less often. The paper has 100, for 12 million pairs.",
        lower_bound=1,
        **define,
    )
    define_tokenization_flags(flag_values)
    flags.DEFINE_bool(
        "reverse", False, "Translate target words into source words, for a model that was trained so.", **define
    )
    flags.DEFINE_string(
        "encoding", None, "Encoding of text and output. Default: UTF-8, and other bytes are an error.", **define
    )
    flags.DEFINE_enum(
        "on_error",
        "stop",
        ["stop", "keep"],
        "A malformed line stops the command, or (keep) is left out and counted.",
        **define,
    )


def main(flag_values: flags.FlagValues) -> None:
    """Makes a dictionary as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.extraction.dictionary import write_dictionary

    text, tokenized = text_arguments(flag_values), tokenization(flag_values)
    summary = write_dictionary(
        output=flag_values.output,
        tokenization=tokenized,
        progress=ReadingProgress,
        **text,
        **{name: flag_values[name].value for name in ("alignment", "min_count", "reverse", "encoding", "on_error")},
    )
    print(summary, file=sys.stderr)


COMMAND = Command("encdec-dictionary", define_flags, main, required=("output",))

if __name__ == "__main__":
    COMMAND.run()
