"""encdec-export: writes a version of a trained model that TensorFlow Serving loads."""

import dataclasses
from typing import TYPE_CHECKING

from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, task_command
from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.export.serving_config import ExportOptions
from keras_encdec.export.versions import MAX_VERSION, check_new_version
from keras_encdec.runtime.files import is_url, joined
from keras_encdec.runtime.imports import check_extra
from keras_encdec.trained_model import NOT_SERVED, TrainedModel, check_has_source

if TYPE_CHECKING:
    from keras_encdec.export import ExportResult


@dataclasses.dataclass(frozen=True)
class ExportCommandOptions(ExportOptions):
    """Options of the command: those of an export, and the tasks that it can do instead."""

    stable_version: int | None = hyperparameter(
        None,
        "Export nothing: move the label `stable` in models.config to this version, to publish or roll back.",
        minimum=1,
        maximum=MAX_VERSION,
        group="versions and models.config",
    )
    remove_version: int | None = hyperparameter(
        None,
        "Export nothing: remove this version and its labels in models.config. The stable version cannot be removed.",
        minimum=1,
        maximum=MAX_VERSION,
        group="versions and models.config",
    )


def main(arguments: Arguments, options: ExportCommandOptions) -> None:
    """Exports as the flags say."""
    model_dir, folder = arguments["model_dir"], arguments["export_dir"]
    tasks = {"model_dir": model_dir, "stable_version": options.stable_version, "remove_version": options.remove_version}
    given = " and ".join(f"{{{name}}}" for name, value in tasks.items() if value)
    if sum(map(bool, tasks.values())) != 1:
        raise ConfigurationError(
            f"found {given or 'none'}, expected one of {{model_dir}}, {{stable_version}} and {{remove_version}}"
        )
    if not model_dir:
        for name in options.changed():
            if name not in ("stable_version", "remove_version", "model_name", "base_path"):
                raise ConfigurationError(f"found {{{name}}} with {given}, which exports nothing; drop it")
    check_extra("serving", "Exporting")
    tables = options.dictionary, options.lexical_shortlist, options.word_translations
    check_paths([model_dir], tables, folders=[folder])
    from keras_encdec.export import move_stable_label, remove_version
    from keras_encdec.export.models_config import ModelsConfig

    if options.stable_version:
        path = move_stable_label(folder, options.model_name, options.stable_version, options.base_path)
        say(f"{path}: stable is version {options.stable_version}")
    elif options.remove_version:
        remove_version(folder, options.model_name, options.remove_version, options.base_path)
        say(f"{folder}: version {options.remove_version} is removed")
    else:
        model = TrainedModel.read(model_dir)
        check_has_source(model.has_source, model_dir, remedy=NOT_SERVED)
        options.check_model(model)
        if not is_url(folder):
            ModelsConfig(folder, options.model_name, options.base_path)  # raises for another model's folder
            check_new_version(folder, options.version)
        import_keras("tensorflow")
        from keras_encdec.export import export_model

        _show(export_model(model_dir, folder, options), model_dir, folder)


def _show(result: "ExportResult", model_dir: str, folder: str) -> None:
    if result.tokenization and result.tokenization_is_assumed:
        say(
            f"{model_dir}: the model was trained on tokenized text. The server tokenizes raw text with this package's "
            f"tokenizer, and {'lowercases it' if result.tokenization['lowercase'] else 'keeps its case'}, as the "
            "vocabularies suggest; check that the training text was tokenized in the same way."
        )
    say(f"{result.path}: version {result.version}, stable is {result.stable or 'none'}")
    config_path = joined(folder, "models.config")
    if result.base_path:
        say(f"{config_path}: the server finds the versions in {result.base_path} (--base_path)")
    if not result.stable:
        say(f"{config_path}: the label stable names a version that does not exist; --stable_version moves it.")


COMMAND = task_command(
    "encdec-export",
    main,
    ExportCommandOptions,
    required={
        "export_dir": "Folder, or its URL, with a folder for each version of the served model. A server may poll it."
    },
    optional={"model_dir": "Directory of the model, made by encdec-train on any backend."},
    example="encdec-export --model_dir=model --export_dir=served",
    guide="serving",
)

if __name__ == "__main__":
    COMMAND.run()
