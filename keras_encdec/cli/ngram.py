"""encdec-ngram: estimates an n-gram language model by modified Kneser-Ney smoothing, and writes it as an ARPA file."""

import sys

from absl import flags

from keras_encdec.cli.command import Command


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-ngram`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_string(
        "input", None, "Sentences, one per line, in tokens, plain or gzipped; - is the standard input.", **define
    )
    flags.DEFINE_string(
        "output",
        None,
        "ARPA file to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard "
        "output.",
        **define,
    )
    flags.DEFINE_integer("order", 5, "Words of the longest n-grams.", lower_bound=1, **define)
    flags.DEFINE_string(
        "encoding", None, "Encoding of text and model. Default: UTF-8, and other bytes are an error.", **define
    )


def main(flag_values: flags.FlagValues) -> None:
    """Estimates a model as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.ngrams.ngram_estimation import estimate_ngrams

    summary = estimate_ngrams(
        flag_values.input,
        flag_values.output,
        flag_values.order,
        encoding=flag_values.encoding,
        progress=ReadingProgress,
    )
    print(summary, file=sys.stderr)


COMMAND = Command("encdec-ngram", define_flags, main, required=("input", "output"))

if __name__ == "__main__":
    COMMAND.run()
