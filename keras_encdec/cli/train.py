"""encdec-train: learns p(target | source) from pairs."""

import sys
from typing import Any

from absl import flags

from keras_encdec.architectures.architecture_registry import architecture, architecture_names
from keras_encdec.architectures.presets import load_preset, preset_names
from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.configuration_flags import configuration_from_flags, define_configuration_flags, given_flags
from keras_encdec.trainers.training_config import TrainingConfig, check_together
from keras_encdec.trainers.training_data import TrainingData


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of the command: its own, and those of the configurations."""
    flags.DEFINE_string("model_dir", None, "Directory of the model.", flag_values=flag_values)
    flags.DEFINE_bool(
        "resume",
        False,
        "Continue the training in --model_dir from its last checkpoint. Starts a new one if there is none; if it has "
        "finished, says so and exits with status 0.",
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "preset",
        None,
        f"Published or recommended settings, {', '.join(preset_names())}, or the path of a file of yours, such as the "
        "settings.toml in a model directory; flags given beside it override it.",
        flag_values=flag_values,
    )
    define_configuration_flags(flag_values, TrainingData, "data")
    models = {name: architecture(name).config for name in architecture_names()}
    define_configuration_flags(flag_values, TrainingConfig, "training")
    define_configuration_flags(flag_values, models, "model")


def main(flag_values: flags.FlagValues) -> int:
    """Trains as the flags say; returns the exit status."""
    config, data = configurations(flag_values)
    check_together(config, data)

    import keras_encdec.backend.startup  # noqa: F401
    from keras_encdec.trainers.train import train

    result = train(config, data, flag_values.model_dir, flag_values.resume)
    if result.signal is None:
        return 0
    print("Stopped by a signal; run the same command with --resume to continue.", file=sys.stderr)
    return 128 + result.signal


def configurations(flag_values: flags.FlagValues) -> tuple[TrainingConfig, TrainingData]:
    """The settings that the flags ask for.

    Raises:
        UsageError: for flags of another architecture.
        ConfigurationError: for values that cannot be used.
    """
    preset = load_preset(flag_values.preset) if flag_values.preset else None
    chosen = flag_values.architecture or (preset and preset.architecture) or "encdec"
    given = given_flags(TrainingConfig, flag_values)
    given["model"] = _model_flags(chosen, flag_values)
    if preset is None:
        return TrainingConfig(**given), configuration_from_flags(TrainingData, flag_values)
    config = TrainingConfig.from_preset(preset.path, **given)
    return config, TrainingData.from_preset(preset.path, **given_flags(TrainingData, flag_values))


def _model_flags(chosen: str, flag_values: flags.FlagValues) -> dict[str, Any]:
    """The hyper-parameters of the model that were given, which must be the chosen architecture's."""
    given = {name: given_flags(architecture(name).config, flag_values) for name in architecture_names()}
    own = given_flags(architecture(chosen).config, flag_values)
    for values in given.values():
        for name in values:
            if name not in own:
                owners = " or ".join(f"--architecture={other}" for other in given if name in given[other])
                raise UsageError(f"found --{name} with --architecture={chosen}, expected it with {owners}.")
    return own


COMMAND = Command("encdec-train", define_flags, main, required=("model_dir",))

if __name__ == "__main__":
    COMMAND.run()
