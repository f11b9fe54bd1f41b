"""A training that goes on must be the one that began."""

import contextlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from keras_encdec.configuration import Configuration, ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import open_output
from keras_encdec.runtime.files import file_checksum
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

_CELLS = ("lstm", "gru", "rnn")
_VALIDATION = "validation_checksums"


def fixed_settings(config: TrainingConfig, data: TrainingData) -> dict[str, Any]:
    """What a training that goes on must have the same beside the model, by name in alphabetical order.

    Of the files to validate on these are the checksums, `None` for a pipe, which can be read once only.
    """
    checksums = [file_checksum(path) if os.path.isfile(path) else None for path in _validation_files(data)]
    return dict(sorted({**_fixed(config), **_fixed(data), _VALIDATION: checksums}.items()))


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
    _check_validation(asked.pop(_VALIDATION), settings.get(_VALIDATION), data)
    before = {name: _default(name, config, data) for name in asked}
    before.update((name, value) for name, value in settings.items() if name in before)
    if before["architecture"] in _CELLS:  # as the first version called the architectures
        before["architecture"] = "language_model" if settings.get("language_model") else "recurrent"
    if before["architecture"] == config.architecture:
        model = config.model.to_dict()
        asked = {**model, **asked}
        known = config.model.upgraded({name: model_config[name] for name in model if name in model_config})
        before = {**type(config.model).from_dict(known).to_dict(), **before}
    different = [name for name, value in asked.items() if value != before[name]]
    if different:
        names = ", ".join(f"{{{name}}}=%s" for name in different)
        values = [settings[name] for settings in (asked, before) for name in different]
        raise ConfigurationError(f"found {names}, expected {names} as in the model to go on with", *values)


def _check_validation(asked, before, data):
    """The best weights are those with the best score so far, which is of no use on other pairs."""
    if before is None:  # as the first versions did not keep them
        return
    if len(asked) != len(before) or any(a != b for a, b in zip(asked, before, strict=True) if a and b):
        found = " ".join(_validation_files(data)) or "none"
        raise ConfigurationError(
            "found {validation}=%s, expected the pairs that the model to go on with was validated on; give the same "
            "files, or another {model_dir}",
            found,
        )


def _validation_files(data):
    return [*data.validation, *([data.validation_alignment] if data.validation_alignment else [])]


def _fixed(config: Configuration) -> dict[str, Any]:
    return {p.name: getattr(config, p.name) for p in config.hyperparameters() if p.fixed}


def _default(name, *configs):
    return next(p.default for config in configs for p in config.hyperparameters() if p.name == name)


SETTINGS = "settings.toml"


def save_settings(folder: pathlib.Path, config: TrainingConfig, data: TrainingData) -> None:
    """Writes the settings as a preset, in TOML, which `encdec-train --preset=.../settings.toml` reads."""
    training = config.to_dict()
    architecture, model = training.pop("architecture"), training.pop("model")
    tables = {"model": model, "training": training, "data": data.to_dict()}
    lines = ["# What this model was trained with, as a preset.", f"architecture = {json.dumps(architecture)}"]
    for name, values in tables.items():
        lines += ["", f"[{name}]", *_lines(values)]
    with open_output(folder / SETTINGS) as file:
        file.write(("\n".join(lines) + "\n").encode())


def data_before(folder: pathlib.Path) -> TrainingData | None:
    """The data that a training began with, as its settings say; `None` where those are gone or were spoilt."""
    with contextlib.suppress(InputError, ConfigurationError):
        return TrainingData.from_preset(folder / SETTINGS)
    return None


def update_settings(folder: pathlib.Path, config: TrainingConfig) -> None:
    """Writes the settings of a training that goes on: the data are those that it began with.

    Settings that are gone or were spoilt stay as they are.
    """
    if data := data_before(folder):
        save_settings(folder, config, data)


def _lines(values: Mapping[str, Any]):
    """What is not set is left out. Of these values JSON and TOML are alike."""
    return [f"{name} = {_escaped(json.dumps(value))}" for name, value in values.items() if value is not None]


def _escaped(text):
    return text.replace("\x7f", "\\u007f")
