"""encdec-select: selects the best sentence pairs of a corpus with translation or language models."""

from keras_encdec.backend.startup import import_keras, keep_freed_memory
from keras_encdec.cli.flags import TEXT, with_text_input
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.formats import pair_format
from keras_encdec.formats.record_reader import LEFT_OUT
from keras_encdec.runtime.files import check_distinct_files, is_file
from keras_encdec.selection.selection_options import TRANSLATION_MODELS, SelectionOptions, check_corpus
from keras_encdec.smt.ngrams.ngram_model import check_ngram_model
from keras_encdec.trained_model import TrainedModel, check_is_language_model, check_translates

_MODELS = {
    "model_dir": "dual: directory of the model that gives p(target | source).",
    "reverse_model_dir": "dual: directory of a model trained with --reverse, p(source | target).",
}
for _side in ("source", "target"):
    _MODELS[f"in_domain_{_side}"] = (
        f"moore_lewis, bilingual: language model of {_side} text of the domain: a model directory, or an n-gram model "
        "as an ARPA file or a binary file of KenLM."
    )
    _MODELS[f"general_{_side}"] = f"moore_lewis, bilingual: language model of {_side} text like that of the corpus."


def main(arguments: Arguments, options: SelectionOptions) -> None:
    """Selects as the flags say."""
    arguments = with_text_input(arguments)
    models = {name: path for name in _MODELS if (path := arguments.pop(name)) is not None}
    check_corpus(**arguments)
    options.models_in_order(models)
    ngram_models = [path for name, path in models.items() if name not in TRANSLATION_MODELS and is_file(path)]
    check_paths(
        [path for path in models.values() if path not in ngram_models],
        [arguments["input"], arguments["source"], *ngram_models],
        [arguments[name] for name in ("output", "source_output", "scores")],
    )
    for name, path in models.items():
        if path in ngram_models:
            continue
        model = TrainedModel.read(path)
        if name in TRANSLATION_MODELS:
            check_translates(model, name == "reverse_model_dir", f"--{name}")
        else:
            check_is_language_model(model.has_source, model.path, f"--{name}")
    for path in ngram_models:
        check_ngram_model(path)
    check_distinct_files(arguments["input"], arguments["source"])
    reading = options.encoding, options.on_error, LEFT_OUT
    pair_format(arguments["format"]).check_beginning(arguments["input"], arguments["source"], *reading)
    import_keras()
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.selection.select_pairs import select_pairs

    keep_freed_memory()
    show_summary(select_pairs(**arguments, models=models, options=options, progress=ReadingProgress, show=say))


COMMAND = task_command(
    "encdec-select",
    main,
    SelectionOptions,
    required={
        "output": "File to write the selected lines of --target or --tsv to, unchanged and in their order; gzipped if "
        "its name ends in .gz. It appears when it is complete."
    },
    optional={
        **TEXT,
        "tsv": TEXT["tsv"].replace("ignored", "kept"),
        "source_output": "With --source: file to write the selected sources to.",
        "scores": "File to write all pairs to, each with its score (higher is better) and the cross-entropies that it "
        "is computed from, in nats per token.",
        **_MODELS,
    },
    flag_names={"number_of_processes": "processes"},
    progress=True,
    example="encdec-select --model_dir=forward --reverse_model_dir=reverse --source=train.en "
    "--target=train.fr --share=0.5 --source_output=best.en --output=best.fr",
    guide="data-selection",
)

if __name__ == "__main__":
    COMMAND.run()
