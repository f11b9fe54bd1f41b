"""encdec-ngram-posteriors: adds the posterior probabilities of each hypothesis's n-grams to an n-best list."""

from keras_encdec.cli.flags import OUTPUT
from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.smt.nbest.ngram_posteriors import PosteriorOptions


def main(arguments: Arguments, options: PosteriorOptions) -> None:
    """Adds the feature as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.nbest.ngram_posteriors import add_ngram_posteriors

    check_paths(inputs=[arguments["input"], arguments["translations"]], outputs=[arguments["output"]])
    show_summary(add_ngram_posteriors(**arguments, options=options, progress=ReadingProgress))


COMMAND = task_command(
    "encdec-ngram-posteriors",
    main,
    PosteriorOptions,
    required={
        "input": "N-best list, plain or gzipped; - means standard input.",
        "translations": "N-best list of other translations of the same sentences, as encdec-generate "
        "--format=moses_nbest writes it, or the list itself.",
        **OUTPUT,
    },
    example="encdec-ngram-posteriors --input=nbest.gz --translations=translations.gz --output=with-posteriors.gz",
    guide="nbest",
)

if __name__ == "__main__":
    COMMAND.run()
