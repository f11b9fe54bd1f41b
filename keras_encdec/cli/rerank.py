"""encdec-rerank: sorts an n-best list by the weighted sum of its features, or takes the best of each sentence."""

from keras_encdec.cli.flags import OUTPUT, WEIGHTS, parsed_weights, warn_of_missing
from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.smt.nbest.rerank import RerankOptions


def main(arguments: Arguments, options: RerankOptions) -> None:
    """Re-ranks as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.nbest.rerank import rerank

    check_paths(inputs=[arguments["input"]], outputs=[arguments["output"]])
    other_weights = parsed_weights(arguments.pop("other_weights"))
    summary = rerank(**arguments, options=options, other_weights=other_weights, progress=ReadingProgress)
    show_summary(summary)
    warn_of_missing(summary.missing, "written as empty lines")


COMMAND = task_command(
    "encdec-rerank",
    main,
    RerankOptions,
    required={"input": "N-best list with all features, plain or gzipped; - means standard input.", **OUTPUT},
    optional={
        "weights": f"{WEIGHTS['weights']} Penalties that Moses keeps out of its lists, such as that of unknown words, "
        "are not part of the new totals.",
        "other_weights": WEIGHTS["weight"],
    },
    flag_names={"other_weights": "weight"},
    example="encdec-rerank --input=nbest.gz --weights=tuned.weights --format=text --output=translations.fr",
    guide="nbest",
)

if __name__ == "__main__":
    COMMAND.run()
