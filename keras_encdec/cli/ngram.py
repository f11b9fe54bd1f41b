"""encdec-ngram: estimates an n-gram language model with modified Kneser-Ney smoothing, and writes an ARPA file."""

from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.smt.ngrams.ngram_estimation import NgramOptions


def main(arguments: Arguments, options: NgramOptions) -> None:
    """Estimates a model as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.ngrams.ngram_estimation import estimate_ngrams

    check_paths(inputs=[arguments["input"], arguments["vocabulary"]], outputs=[arguments["output"]])
    show_summary(estimate_ngrams(**arguments, options=options, progress=ReadingProgress))


COMMAND = task_command(
    "encdec-ngram",
    main,
    NgramOptions,
    required={
        "input": "Tokenized sentences, one per line, plain or gzipped; - means standard input.",
        "output": "ARPA file to write; gzipped if its name ends in .gz. It appears when it is complete. - means "
        "standard output. Commands read it with kenlm, from the extra ngram.",
    },
    optional={
        "vocabulary": "File with the words that the model has, as text or a list; all others become the unknown word. "
        "--min_count then counts in this file. Default: the input."
    },
    example="encdec-ngram --input=train.fr --output=lm.arpa.gz --order=5",
    guide="decoding",
)

if __name__ == "__main__":
    COMMAND.run()
