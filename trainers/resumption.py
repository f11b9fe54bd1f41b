"""A training that goes on must be the one that began."""

from collections.abc import Mapping
from typing import Any

from keras_encdec.configuration import Configuration, ConfigurationError
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

_CELLS = ("lstm", "gru", "rnn")


def fixed_settings(config: TrainingConfig, data: TrainingData) -> dict[str, Any]:
    """What a training that goes on must have the same beside the model, by name in alphabetical order."""
    return dict(sorted({**_fixed(config), **_fixed(data)}.items()))


def check_same_training(
    config: TrainingConfig, data: TrainingData, settings: Mapping[str, Any], model_config: Mapping[str, Any]
) -> None:
    """Checks that the settings are those of the training to go on with.

    Args:
        config, data: of the training that is asked for.
        settings: dict. The `fixed_settings` of the training to go on with. What a version that made it knew
            nothing of, it did as the defaults say.
        model_config: dict. The model's `get_config()`.

    Raises:
        ConfigurationError: a ValueError, which names those that differ.
    """
    asked = fixed_settings(config, data)
    before = {name: _default(name, config, data) for name in asked}
    before.update((name, value) for name, value in settings.items() if name in before)
    if before["architecture"] in _CELLS:  # as the first version called the architectures
        before["architecture"] = "language_model" if settings.get("language_model") else "recurrent"
    if before["architecture"] == config.architecture:
        model = config.model.to_dict()
        asked = {**model, **asked}
        known = {name: model_config[name] for name in model if name in model_config}
        before = {**config.model.replace(**known).to_dict(), **before}
    different = [name for name, value in asked.items() if value != before[name]]
    if different:
        names = ", ".join(f"{{{name}}}=%s" for name in different)
        values = [settings[name] for settings in (asked, before) for name in different]
        raise ConfigurationError(f"found {names}, expected {names} as in the model to go on with", *values)


def _fixed(config: Configuration) -> dict[str, Any]:
    return {p.name: getattr(config, p.name) for p in config.hyperparameters() if p.fixed}


def _default(name, *configs):
    return next(p.default for config in configs for p in config.hyperparameters() if p.name == name)
