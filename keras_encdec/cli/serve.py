"""encdec-serve: serves a page for trying a model in a browser; without flags, the model that comes with the package."""

from keras_encdec.backend.startup import import_keras, keep_freed_memory
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, task_command
from keras_encdec.model_config import PACKAGED, STARTER, model_path
from keras_encdec.trained_model import TrainedModel, check_has_source
from keras_encdec.web.endpoints import ServeOptions


def main(arguments: Arguments, options: ServeOptions) -> None:
    """Serves a page as the flags say."""
    from keras_encdec.datasets import libreoffice_en_fr
    from keras_encdec.runtime.imports import check_extra

    check_extra("web", "The page")
    if arguments["model_dir"] is None:
        arguments["model_dir"] = STARTER
        say(f"Serving {STARTER}, the model that comes with the package; --model_dir names another.")
    is_starter = model_path(arguments["model_dir"]) == PACKAGED / STARTER
    if is_starter and not (arguments["phrase_table"] or arguments["input"]):  # it comes without its training data
        arguments["phrase_table"] = libreoffice_en_fr().phrase_table
    options.check_files(arguments["phrase_table"], arguments["input"])
    check_paths([arguments["model_dir"]], [arguments["phrase_table"], arguments["input"]])
    model = TrainedModel.read(arguments["model_dir"])
    check_has_source(model.has_source, model.path)
    options.listen().close()  # fails now, rather than after Keras is imported
    import_keras()
    from keras_encdec.web.serve import serve

    keep_freed_memory()  # with many arenas, freed memory seldom fits the next request
    serve(**arguments, options=options, say=say)


COMMAND = task_command(
    "encdec-serve",
    main,
    ServeOptions,
    optional={
        "model_dir": f"Directory of a model with a source. Default: {STARTER}, the model that comes with the package.",
        "phrase_table": "Moses phrase table, plain or gzipped. The page shows the neighbours of a phrase among its "
        "sources, or among its targets with a reverse model. Default: the model's training data.",
        "input": "Text file with one phrase or sentence per line, to use instead of a phrase table.",
    },
    interrupted="the server has ended.",
    serves=True,
    progress=True,
    example="encdec-serve --port=8080",
    guide="trying",
)

if __name__ == "__main__":
    COMMAND.run()
