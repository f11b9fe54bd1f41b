"""encdec-decode: translates sentences by a phrase table and an n-gram language model into a Moses n-best list."""

import sys

from absl import flags

from keras_encdec.cli.command import Command
from keras_encdec.cli.flags import weights_given


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-decode`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_string("source", None, "Sentences to translate, one per line, in tokens.", **define)
    flags.DEFINE_string("phrase_table", None, "Moses phrase table with any number of scores.", **define)
    flags.DEFINE_string("language_model", None, "ARPA file of the target language, plain or gzipped.", **define)
    flags.DEFINE_string(
        "output",
        None,
        "N-best list to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard "
        "output.",
        **define,
    )
    flags.DEFINE_string(
        "weights",
        None,
        'moses.ini, or a file of lines "Name= w [w ...]". Default: those that Moses begins tuning with.',
        **define,
    )
    flags.DEFINE_multi_string(
        "weight", [], "Name=w, the weight of a feature; overrides --weights or the default. May be repeated.", **define
    )
    flags.DEFINE_integer(
        "nbest_size", 100, "Maximum number of hypotheses per sentence, all distinct.", lower_bound=1, **define
    )
    flags.DEFINE_integer(
        "pop_limit",
        300,
        "Hypotheses that are tried for each number of translated words. More take longer, and find higher totals.",
        lower_bound=1,
        **define,
    )
    flags.DEFINE_integer(
        "distortion_limit",
        6,
        "Maximum distortion: source words that a jump may skip; -1: no limit.",
        lower_bound=-1,
        **define,
    )
    flags.DEFINE_integer(
        "table_limit",
        20,
        "Maximum number of targets per source phrase, the best ones; 0: no limit.",
        lower_bound=0,
        **define,
    )
    flags.DEFINE_integer(
        "max_sentence_length",
        100,
        "Most words in a sentence; a longer one is an error.",
        lower_bound=1,
        upper_bound=500,
        **define,
    )
    flags.DEFINE_string(
        "encoding", None, "Encoding of text, table and model. Default: UTF-8, and other bytes are an error.", **define
    )
    flags.DEFINE_integer(
        "processes",
        None,
        "Processes that share the work. Default: as many as there are processors.",
        lower_bound=1,
        **define,
    )


def main(flag_values: flags.FlagValues) -> None:
    """Translates as the flags say."""
    from keras_encdec.formats import read_weights
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.decoder.phrase_decoder import decode_nbest

    files = (flag_values[name].value for name in ("source", "phrase_table", "language_model", "output"))
    weights = read_weights(flag_values.weights)[0] if flag_values.weights else None
    names = "nbest_size", "pop_limit", "distortion_limit", "table_limit", "max_sentence_length", "encoding"
    summary = decode_nbest(
        *files,
        weights,
        other_weights=weights_given(flag_values),
        number_of_processes=flag_values.processes,
        progress=ReadingProgress,
        **{name: flag_values[name].value for name in names},
    )
    print(summary, file=sys.stderr)
    for remark in summary.remarks:
        print(remark, file=sys.stderr)


COMMAND = Command(
    "encdec-decode",
    define_flags,
    main,
    required=("source", "phrase_table", "language_model", "output"),
    flag_names={"number_of_processes": "processes"},
)

if __name__ == "__main__":
    COMMAND.run()
