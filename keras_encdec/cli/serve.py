"""encdec-serve: a page to try a model on, in a browser."""

import sys

from keras_encdec.backend.startup import import_keras, keep_freed_memory
from keras_encdec.cli.task_command import Arguments, check_paths, task_command
from keras_encdec.web.serve_options import ServeOptions


def main(arguments: Arguments, options: ServeOptions) -> None:
    """Serves a page as the flags say."""
    from keras_encdec.runtime.extras import check_extra

    check_extra("web", "The page")
    check_paths([arguments["model_dir"]], [arguments["phrase_table"], arguments["input"]])
    import_keras()
    from keras_encdec.web.serve import serve

    keep_freed_memory()  # with many arenas, freed memory seldom fits the next request
    serve(**arguments, options=options, say=lambda line: print(line, file=sys.stderr, flush=True))


COMMAND = task_command(
    "encdec-serve",
    main,
    ServeOptions,
    required={"model_dir": "Directory of a model with a source."},
    optional={
        "phrase_table": "Moses phrase table, plain or gzipped. The page shows the neighbours of a phrase among its "
        "sources. Default: the model's training data.",
        "input": "Text, a phrase or sentence per line, to use instead of a phrase table.",
    },
    serves=True,
    progress=True,
    example="encdec-serve --model_dir=model",
    guide="trying",
)

if __name__ == "__main__":
    COMMAND.run()
