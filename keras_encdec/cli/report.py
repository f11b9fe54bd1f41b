"""encdec-report: shows what a model has learned, on a page with the paper's tables and figures."""

from keras_encdec.analysis.report_options import ReportOptions, files_of_earlier_report
from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.flags import Repeated
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.formats import pair_format
from keras_encdec.model_config import check_has_history
from keras_encdec.runtime.imports import check_extra
from keras_encdec.trained_model import TrainedModel, check_translates


def main(arguments: Arguments, options: ReportOptions) -> None:
    """Writes a report as the flags say."""
    check_extra("analysis", "The report")
    inputs = arguments["phrase_table"], arguments["source"], arguments["target"]
    options.check_files(*inputs)
    check_paths([arguments["model_dir"]], inputs, folders=[arguments["output"]])
    files_of_earlier_report(arguments["output"])  # raises an error for another page in its place
    check_translates(TrainedModel.read(arguments["model_dir"]))
    for other in arguments["compare_with"]:
        check_has_history(other)
    for path, known in zip(inputs, ("phrase_table", "sentences", "sentences"), strict=True):
        if path:
            pair_format(known).check_beginning(path, encoding=options.encoding, on_error=None)
    import_keras()
    from keras_encdec.analysis.report import report

    show_summary(report(**arguments, options=options, say=say))


COMMAND = task_command(
    "encdec-report",
    main,
    ReportOptions,
    required={
        "model_dir": "Directory of a model of p(target | source), or libreoffice_en_fr, the packaged model.",
        "output": "Folder to write: index.html, and the folders figures, tables and projector. The files of an "
        "earlier report in it are replaced or removed.",
    },
    optional={
        "phrase_table": "Moses phrase table of the model's languages, plain or gzipped. Optional.",
        "source": "Sentences, one per line: scores and BLEU by length with --target, and the attention of a model that "
        "has it. Optional.",
        "target": "Reference translations of the sentences. Optional.",
        "compare_with": Repeated(
            "Another model directory, whose training curves are shown next to the model's; may be given several times."
        ),
    },
    flag_names={"phrases": "phrase"},
    repeated=("phrases",),
    example="encdec-report --model_dir=model --phrase_table=phrase-table.gz --output=report",
    guide="report",
)

if __name__ == "__main__":
    COMMAND.run()
