"""encdec-export: writes a version of a trained model that TensorFlow Serving loads."""

import os
import sys

from absl import flags

from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.configuration_flags import configuration_from_flags, define_configuration_flags
from keras_encdec.cli.tensorflow_backend import import_keras_on_tensorflow
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.export.versions import LARGEST


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of encdec-export."""
    own = {"flag_values": flag_values}
    flags.DEFINE_string("model_dir", None, "Directory of the model, made by encdec-train on any backend.", **own)
    flags.DEFINE_string(
        "export_dir", None, "Folder of the served model's versions, a folder each. A server may be polling it.", **own
    )
    flags.DEFINE_integer(
        "version", None, "Number of the version. Default: one more than the newest there.", 1, LARGEST, **own
    )
    flags.DEFINE_string("model_name", "encdec", "What the server calls the model.", **own)
    flags.DEFINE_bool(
        "raw_text",
        False,
        "Read raw text, tokenized in the graph by operations of tensorflow-text, and not tokens.",
        **own,
    )
    flags.DEFINE_integer(
        "stable_version",
        None,
        "Export nothing: move the label `stable` in models.config to this version, to publish or roll back.",
        1,
        LARGEST,
        **own,
    )
    flags.DEFINE_integer(
        "remove_version",
        None,
        "Export nothing: remove this version, after its labels in models.config. The stable version cannot be removed.",
        1,
        LARGEST,
        **own,
    )
    define_configuration_flags(flag_values, ServingConfig, "limits and search")


def main(flag_values: flags.FlagValues) -> None:
    """Exports as the flags say."""
    given = [name for name in ("model_dir", "stable_version", "remove_version") if flag_values[name].value]
    if len(given) != 1:
        raise UsageError(
            f"found {' and '.join(f'--{name}' for name in given) or 'none'} of --model_dir, --stable_version and "
            "--remove_version, expected one."
        )
    for name in ("export_dir", "model_name"):
        if not flag_values[name].value:
            raise UsageError(f"found an empty --{name}, expected a name.")
    config = configuration_from_flags(ServingConfig, flag_values)
    import_keras_on_tensorflow()
    from keras_encdec.export import export_model, move_stable_label, remove_version

    folder, model_name = flag_values.export_dir, flag_values.model_name
    if flag_values.stable_version:
        path = move_stable_label(folder, model_name, flag_values.stable_version)
        print(f"{path}: stable is version {flag_values.stable_version}", file=sys.stderr)
        return
    if flag_values.remove_version:
        remove_version(folder, model_name, flag_values.remove_version)
        print(f"{folder}: version {flag_values.remove_version} is gone", file=sys.stderr)
        return
    result = export_model(
        flag_values.model_dir, folder, flag_values["version"].value, model_name, flag_values.raw_text, config
    )
    if result.tokenization_is_assumed:
        print(
            f"{flag_values.model_dir}: the model was trained on tokens: raw text will be tokenized by this package's "
            f"tokenizer, {'case folded' if result.tokenization['lowercase'] else 'its case kept'} as in the "
            "vocabularies; check that the two agree.",
            file=sys.stderr,
        )
    print(f"{result.path}: version {result.version}, stable is {result.stable or 'none'}", file=sys.stderr)
    if not result.stable:
        config_path = os.path.join(folder, "models.config")
        print(f"{config_path}: stable is no version that is there; --stable_version moves it.", file=sys.stderr)


COMMAND = Command("encdec-export", define_flags, main, required=("export_dir",))

if __name__ == "__main__":
    COMMAND.run()
