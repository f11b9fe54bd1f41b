"""encdec-verify: compares the scores of an exported model with those of the model it was made from."""

import dataclasses

from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, task_command
from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.export.serving_config import VerificationOptions
from keras_encdec.export.versions import check_exported_from, check_unchanged, version_folder
from keras_encdec.formats import ColumnKind, format_names
from keras_encdec.runtime.files import is_url
from keras_encdec.task_options import EncodingOption
from keras_encdec.trained_model import NOT_SERVED, TrainedModel, check_has_source


@dataclasses.dataclass(frozen=True)
class VerifyCommandOptions(EncodingOption, VerificationOptions):
    """Options of the command: those of the comparison, and the pairs that are compared."""

    format: str = hyperparameter(
        "tsv", "Format of the input.", choices=lambda: format_names(ColumnKind.LOG_PROB, has_source_file=False)
    )
    num_pairs: int = hyperparameter(1000, "Number of pairs to compare: the first ones of the input.", minimum=1)


def main(arguments: Arguments, options: VerifyCommandOptions) -> None:
    """Compares as the flags say."""
    if not arguments["input"]:
        for name in ("format", "encoding"):
            if name in options.changed():
                raise ConfigurationError(f"found {{{name}}} without {{input}}, expected both")
    check_paths([arguments["model_dir"]], [arguments["input"]])
    model = TrainedModel.read(arguments["model_dir"])
    check_has_source(model.has_source, arguments["model_dir"], remedy=NOT_SERVED)
    if not is_url(arguments["export_dir"]):
        version = version_folder(arguments["export_dir"], options.version)
        check_unchanged(version)
        check_exported_from(model, version)
    import_keras("tensorflow")
    from keras_encdec.datasets import libreoffice_en_fr
    from keras_encdec.export import verify_export
    from keras_encdec.export.comparison import read_pairs
    from keras_encdec.runtime.progress import counted

    if arguments["input"]:
        pairs, malformed = read_pairs(arguments["input"], options.format, options.encoding, options.num_pairs)
        made_pairs = 0
    else:
        table = libreoffice_en_fr().phrase_table
        pairs, malformed = read_pairs(table, "phrase_table", number=options.num_pairs // 2)
        made_pairs = options.num_pairs - len(pairs)
    if malformed:
        say(f"Left out: {counted(malformed, 'malformed lines')}.")
    folders = arguments["model_dir"], arguments["export_dir"]
    skip_long = not arguments["input"]  # the user can do nothing about pairs of the package
    report = verify_export(*folders, options, pairs=pairs, made_pairs=made_pairs, skip_long=skip_long)
    for difference in report.comparisons:
        print(difference)


COMMAND = task_command(
    "encdec-verify",
    main,
    VerifyCommandOptions,
    required={"model_dir": "Directory of the model.", "export_dir": "Folder of its exported versions, or its URL."},
    optional={
        "input": "Pairs to score. Default: half of them from the phrase table that comes with the package, half random "
        "sequences of the model's words."
    },
    flag_names={"num_pairs": "pairs"},
    example="encdec-verify --model_dir=model --export_dir=served",
    guide="serving",
)

if __name__ == "__main__":
    COMMAND.run()
