"""Presets: published or recommended hyper-parameters of models and their training, in TOML files."""

import dataclasses
import importlib.resources
import os
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

from keras_encdec.architectures.architecture_registry import architecture
from keras_encdec.architectures.configurations import ATTENTION_OPTIONS
from keras_encdec.configuration import Configuration, ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.runtime.settings_files import read_parsed

TABLES = ("model", "training", "data")
# What a preset says of attention, and with which choice of the user's it has no meaning.
_WITHOUT_MEANING = {
    ("attention", "none"): ATTENTION_OPTIONS,
    ("attention", "global"): ("attention_window",),
    ("attention_score", "dot"): ("attention_units",),
    ("attention_score", "general"): ("attention_units",),
}


@dataclasses.dataclass(frozen=True)
class Preset:
    """Hyper-parameters that go together.

    Attributes:
        path: where the file is.
        architecture: str. Name of the model, as `encdec-train --architecture` takes it.
        model: dict. Hyper-parameters of the architecture's configuration.
        training: dict. Hyper-parameters of `keras_encdec.trainers.TrainingConfig`.
        data: dict. Hyper-parameters of `keras_encdec.trainers.TrainingData`.
    """

    path: pathlib.Path
    architecture: str
    model: dict[str, Any]
    training: dict[str, Any]
    data: dict[str, Any]

    def table(self, config_class: type[Configuration], name: str) -> dict[str, Any]:
        """One of the tables, its names checked to be hyper-parameters of a configuration.

        Raises:
            InputError: for a name that is not.
        """
        try:
            config_class.check_names(getattr(self, name))
        except ConfigurationError as error:
            raise InputError(f"{error} in [{name}]", path=self.path) from None
        return getattr(self, name)

    def model_with(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The hyper-parameters of the model, with others that override them.

        What the preset says of how attention works does not count without attention; nor does its window with global
        attention, and its width with another score.
        """
        dropped = {
            name for (option, value), names in _WITHOUT_MEANING.items() if given.get(option) == value for name in names
        }
        return {**{name: value for name, value in self.model.items() if name not in dropped}, **given}


def preset_names() -> list[str]:
    """Names of the package's presets, sorted."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def load_preset(name: str | os.PathLike[str]) -> Preset:
    """A preset of the package, or one of the user's own, such as the `settings.toml` in a model directory.

    Args:
        name: str. One of `preset_names()`, or the path of a TOML file: `architecture = "..."` and the tables
            [model], [training] and [data], each optional.

    Raises:
        ConfigurationError: a ValueError, for a name there is no preset of.
        InputError: for a file that does not read, or holds an unknown name or a value out of bounds. The names in
            [training] and [data] are checked where they are used.
    """
    name = os.fspath(name)
    path = pathlib.Path(str(_folder() / f"{name}.toml")) if name in preset_names() else pathlib.Path(name)
    try:
        values = read_parsed(path, tomllib.loads)
    except FileNotFoundError:
        names = ", ".join(preset_names())
        raise ConfigurationError(
            "found {preset}=%s, expected one of %s, or the path of a TOML file", name, names
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"found a file that does not read ({error})", "expected a preset in TOML", path=path) from None
    try:
        kind = architecture(values.pop("architecture", "encdec"))
        tables = {table: values.pop(table, {}) for table in TABLES}
        if values or not all(isinstance(table, dict) for table in tables.values()):
            wrong = next(iter(values), "a table that is none")
            raise ValueError(f"found {wrong}, expected architecture and the tables {', '.join(TABLES)}")
        tables["model"] = kind.config.upgraded(tables["model"])
        kind.config.from_dict(tables["model"])
    except ValueError as error:
        raise InputError(str(error), path=path) from None
    return Preset(path, kind.name, **tables)


def _folder():
    return importlib.resources.files("keras_encdec.architectures") / "preset_files"
