"""encdec-phrase-features: adds scores of a phrase table, summed over each hypothesis's phrases, to an n-best list."""

import re
import sys

from absl import flags

from keras_encdec.cli.command import Command, UsageError


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-phrase-features`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_string("input", None, "N-best list, plain or gzipped; - is the standard input.", **define)
    flags.DEFINE_string(
        "source", None, "The sentences that were translated, plain or gzipped; id 0 is the first line.", **define
    )
    flags.DEFINE_string(
        "phrase_table",
        None,
        "Phrase table, plain or gzipped: that of the list, with more scores at the end, as encdec-score writes it.",
        **define,
    )
    flags.DEFINE_string(
        "output",
        None,
        "File to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard output.",
        **define,
    )
    flags.DEFINE_multi_string(
        "feature",
        ["RNN0=5"],
        "Name=n, a new feature and the number of its score in the table, from 1; Name=n,m for one of several values. "
        "May be given often.",
        **define,
    )
    flags.DEFINE_string(
        "moses_feature",
        "TranslationModel0",
        "Name of the phrase table's feature in the list; its values are used to recover the phrases if the list has no "
        "segmentation.",
        **define,
    )
    flags.DEFINE_string(
        "encoding", None, "Encoding of all inputs. Default: UTF-8, and other bytes are an error.", **define
    )
    flags.DEFINE_enum(
        "on_error",
        "stop",
        ["stop", "keep"],
        "A malformed line, or a hypothesis whose phrases are not found, stops the command. With keep they are counted: "
        "the hypothesis gets the mean of the others of its sentence, or -100 for each word of the sentence if the "
        "phrases of none are found; a malformed line gets 0, and a malformed line of the table is left out.",
        **define,
    )


def main(flag_values: flags.FlagValues) -> None:
    """Adds features as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.nbest.phrase_features import add_phrase_features

    summary = add_phrase_features(
        features=_features(flag_values.feature),
        progress=ReadingProgress,
        **{name: flag_values[name].value for name in _ARGUMENTS},
    )
    print(summary, file=sys.stderr)
    for remark in summary.remarks:
        print(remark, file=sys.stderr)


def _features(given):
    features = {}
    for text in given:
        name, equals, numbers = text.rpartition("=")
        if not equals or not re.fullmatch(r"\d{1,9}(,\d{1,9})*", numbers, re.ASCII):
            raise UsageError(f"--feature: found {text!r}, expected Name=n or Name=n,m with the numbers of scores.")
        if name in features:
            raise UsageError(f"--feature: found {name} twice, expected Name=n,m for a feature of several values.")
        features[name] = [int(number) for number in numbers.split(",")]
    return features


_ARGUMENTS = ("input", "source", "phrase_table", "output", "moses_feature", "encoding", "on_error")
COMMAND = Command(
    "encdec-phrase-features",
    define_flags,
    main,
    required=("input", "source", "phrase_table", "output"),
    flag_names={"features": "feature"},
)

if __name__ == "__main__":
    COMMAND.run()
