"""encdec-rerank: sorts an n-best list by the weighted sum of its features, or takes the best of each sentence."""

import sys

from absl import flags

from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.flags import tell_missing, weights_given


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-rerank`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_string(
        "input", None, "N-best list with all features, plain or gzipped; - is the standard input.", **define
    )
    flags.DEFINE_string(
        "output",
        None,
        "File to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard output.",
        **define,
    )
    flags.DEFINE_enum(
        "format",
        "nbest",
        ["nbest", "text"],
        "The list sorted, with new totals, or the best hypothesis of each sentence, a line each; a sentence without "
        "hypotheses is an empty line.",
        **define,
    )
    flags.DEFINE_string(
        "weights",
        None,
        'moses.ini, or a file of lines "Name= w [w ...]". Penalties that Moses keeps out of its lists, such as that of '
        "unknown words, are not part of the new totals.",
        **define,
    )
    flags.DEFINE_multi_string(
        "weight", [], "Name=w, the weight of a feature; overrides --weights. May be repeated.", **define
    )
    flags.DEFINE_bool(
        "word_penalty", False, "Add the feature WordPenalty0, minus the number of words, to a list without.", **define
    )
    flags.DEFINE_string(
        "encoding", None, "Encoding of the list. Default: UTF-8, and other bytes are an error.", **define
    )


def main(flag_values: flags.FlagValues) -> None:
    """Re-ranks as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.nbest.rerank import rerank

    if not flag_values.weights and not flag_values.weight:
        raise UsageError("found neither --weights nor --weight, expected the weights to rank by.")
    summary = rerank(
        flag_values.input,
        flag_values.output,
        flag_values.weights,
        flag_values.format,
        other_weights=weights_given(flag_values),
        word_penalty=flag_values.word_penalty,
        encoding=flag_values.encoding,
        progress=ReadingProgress,
    )
    print(summary, file=sys.stderr)
    tell_missing(summary.missing, "are empty lines")


COMMAND = Command("encdec-rerank", define_flags, main, required=("input", "output"))

if __name__ == "__main__":
    COMMAND.run()
