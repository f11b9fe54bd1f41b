"""The settings of a training, kept beside its model for people, and for another training like it."""

import contextlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import open_output
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

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
