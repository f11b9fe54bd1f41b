"""encdec-decode: translates sentences with a phrase table and an n-gram language model into a Moses n-best list."""

from keras_encdec.cli.flags import WEIGHTS, Repeated, parsed_weights
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.smt.decoder.decoding_options import DecodingOptions


def main(arguments: Arguments, options: DecodingOptions) -> None:
    """Translates as the flags say."""
    from keras_encdec.formats import read_weights
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.decoder.phrase_decoder import decode_nbest

    inputs = [arguments[name] for name in ("source", "phrase_table", "language_model", "weights")]
    check_paths(inputs=inputs, outputs=[arguments["output"]])
    weights, other_weights = arguments.pop("weights"), parsed_weights(arguments.pop("other_weights"))
    summary = decode_nbest(
        **arguments,
        weights=read_weights(weights) if weights else None,
        options=options,
        other_weights=other_weights,
        progress=ReadingProgress,
        show=say,
    )
    show_summary(summary)


COMMAND = task_command(
    "encdec-decode",
    main,
    DecodingOptions,
    required={
        "source": "Tokenized sentences to translate, one per line.",
        "phrase_table": "Moses phrase table with any number of scores.",
        "language_model": "N-gram model of the target language: ARPA file, plain or gzipped, or binary file of KenLM.",
        "output": "N-best list to write; gzipped if its name ends in .gz. It appears when it is complete. - means "
        "standard output.",
    },
    optional={
        "weights": f"{WEIGHTS['weights']} Default: those that Moses begins tuning with.",
        "other_weights": Repeated(
            "Name=w, the weight of a feature; overrides --weights or the default. May be given several times."
        ),
    },
    flag_names={"number_of_processes": "processes", "other_weights": "weight"},
    progress=True,
    example="encdec-decode --source=val.en --phrase_table=phrase-table.gz --language_model=lm.arpa.gz "
    "--output=val.nbest.gz",
    guide="decoding",
)

if __name__ == "__main__":
    COMMAND.run()
