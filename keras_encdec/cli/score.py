"""encdec-score: adds a model's scores to a phrase table, pairs of text or an n-best list."""

import os

from keras_encdec.backend.startup import import_keras, keep_freed_memory
from keras_encdec.cli.flags import OUTPUT
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.formats import pair_format
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.scoring.scoring_options import ScoringOptions, score_columns
from keras_encdec.trained_model import TrainedModel


def main(arguments: Arguments, options: ScoringOptions) -> None:
    """Scores a file as the flags say."""
    models = arguments["model_dir"], arguments["reverse_model_dir"]
    options.check_output(arguments["output"])
    outputs = arguments["output"], options.moses_ini_out, options.alignments
    check_paths(models, [arguments["input"], options.source, options.moses_ini], outputs)
    model, *others = (TrainedModel.read(path) for path in models if path)
    options.check_models(model, others[0] if others else None, model.has_attention)
    check_distinct_files(arguments["input"], options.source, options.moses_ini)
    file_format = pair_format(options.format)
    columns = score_columns(file_format, options, 1 + len(others))
    reading = options.source, options.encoding, options.on_error
    table_scores = file_format.check_beginning(arguments["input"], *reading, columns=columns)
    if options.moses_ini and os.path.isfile(options.moses_ini):  # a pipe can be read only once
        options.scored_moses_ini(arguments["output"], columns, table_scores)
    import_keras()
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.scoring.score_file import score_file

    keep_freed_memory()
    show_summary(score_file(**arguments, options=options, progress=ReadingProgress, show=say))


COMMAND = task_command(
    "encdec-score",
    main,
    ScoringOptions,
    required={
        "model_dir": "Directory of the model that gives p(target | source), or libreoffice_en_fr, the packaged model.",
        "input": "Phrase table, TSV file, n-best list or the targets of parallel text, plain or gzipped; - means "
        "standard input.",
        **OUTPUT,
    },
    optional={
        "reverse_model_dir": "Directory of a model trained with --reverse, for p(source | target) as a second score."
    },
    flag_names={"number_of_processes": "processes"},
    progress=True,
    example="encdec-score --model_dir=libreoffice_en_fr --input=phrase-table.gz --output=scored.gz",
    guide="phrase-table",
)

if __name__ == "__main__":
    COMMAND.run()
