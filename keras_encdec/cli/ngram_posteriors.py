"""encdec-ngram-posteriors: adds the posterior probabilities of each hypothesis's n-grams to an n-best list."""

import sys

from absl import flags

from keras_encdec.cli.command import Command


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-ngram-posteriors`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_string("input", None, "N-best list, plain or gzipped; - is the standard input.", **define)
    flags.DEFINE_string(
        "translations",
        None,
        "N-best list of other translations of the same sentences, as encdec-generate --format=moses_nbest writes it.",
        **define,
    )
    flags.DEFINE_string(
        "output",
        None,
        "File to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard output.",
        **define,
    )
    flags.DEFINE_float(
        "scale",
        1.0,
        "Translations count in proportion to exp(scale * total score); with 0, all count the same.",
        lower_bound=0.0,
        **define,
    )
    flags.DEFINE_string("feature_name", "NgramPosterior0", "Name of the feature, which has four values.", **define)
    flags.DEFINE_string(
        "encoding", None, "Encoding of both lists. Default: UTF-8, and other bytes are an error.", **define
    )


def main(flag_values: flags.FlagValues) -> None:
    """Adds the feature as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.nbest.ngram_posteriors import add_ngram_posteriors

    summary = add_ngram_posteriors(progress=ReadingProgress, **{name: flag_values[name].value for name in _ARGUMENTS})
    print(summary, file=sys.stderr)


_ARGUMENTS = ("input", "translations", "output", "scale", "feature_name", "encoding")
COMMAND = Command("encdec-ngram-posteriors", define_flags, main, required=("input", "translations", "output"))

if __name__ == "__main__":
    COMMAND.run()
