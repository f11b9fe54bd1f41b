"""Architectures and presets by name, without Keras.

An architecture is a model that can be trained. A preset is a TOML file with published or recommended
hyper-parameters of a model and its training.
"""

import dataclasses
import importlib.resources
import operator
import os
import pathlib
import tomllib
from collections.abc import Mapping

from keras_encdec.architectures.configurations import (
    ATTENTION_OPTIONS,
    CHARACTER_OPTIONS,
    FeedForwardLanguageModelConfig,
    RecurrentEncoderDecoderConfig,
    RecurrentLanguageModelConfig,
    RNNEncoderDecoderConfig,
)
from keras_encdec.configuration import Configuration, ConfigurationError
from keras_encdec.errors import FilePath, InputError, shortened
from keras_encdec.model_config import resolved_or_packaged
from keras_encdec.registry import Registry
from keras_encdec.runtime.files import STANDARD_STREAM, check_can_be_read_again, check_path
from keras_encdec.runtime.settings_files import read_parsed


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A model's name and configuration, for commands before Keras is imported; `model_class` finds its class.

    Attributes:
        name: str. The model's name in `encdec-train --architecture`, presets and model directories.
        config: the class of its hyper-parameters, a subclass of `Configuration`.
        has_source: bool. Whether the model reads a source; a language model does not. Defaults to `True`.
    """

    name: str
    config: type[Configuration]
    has_source: bool = True


ARCHITECTURES: Registry[Architecture] = Registry("architecture", defined_by=operator.attrgetter("config"))


def register_architecture(architecture: Architecture) -> Architecture:
    """Makes an architecture known to the training command, its flags and presets.

    `keras_encdec.models.register_model` calls this function. Call it yourself only if the model's flags have to be
    known before Keras is imported. Registering the same architecture again changes nothing.

    Raises:
        ValueError: for a name that another architecture has.
    """
    return ARCHITECTURES.register(architecture.name, architecture)


def architecture(name: str) -> Architecture:
    """Returns the architecture registered under a name.

    Raises:
        ConfigurationError: a ValueError, for a name that is not registered.
    """
    return ARCHITECTURES.find(name)


def architecture_names() -> list[str]:
    """Returns the names of the registered architectures, in the order of their registration."""
    return list(ARCHITECTURES)


register_architecture(Architecture("encdec", RNNEncoderDecoderConfig))
register_architecture(Architecture("recurrent", RecurrentEncoderDecoderConfig))
register_architecture(Architecture("language_model", RecurrentLanguageModelConfig, has_source=False))
register_architecture(Architecture("cslm", FeedForwardLanguageModelConfig, has_source=False))

TABLES = ("model", "training", "data")
# For a user's choice of a hyper-parameter, the hyper-parameters of a preset that then do not apply.
_NOT_APPLICABLE = {
    ("attention", "none"): ATTENTION_OPTIONS,
    ("attention", "global"): ("attention_window",),
    ("attention_score", "dot"): ("attention_units",),
    ("attention_score", "general"): ("attention_units",),
    ("characters", "none"): CHARACTER_OPTIONS,
    ("characters", "source"): ("character_path",),
}


@dataclasses.dataclass(frozen=True)
class Preset:
    """Hyper-parameters of a model and its training, as read from a TOML file.

    Attributes:
        path: the path of the file.
        architecture: str. Name of the model, as `encdec-train --architecture` takes it.
        model: dict. Hyper-parameters of the architecture's configuration.
        training: dict. Hyper-parameters of `keras_encdec.trainers.TrainingConfig`.
        data: dict. Hyper-parameters of `keras_encdec.trainers.TrainingData`.
    """

    path: FilePath
    architecture: str
    model: dict[str, object]
    training: dict[str, object]
    data: dict[str, object]

    def table(self, config_class: type[Configuration], name: str) -> dict[str, object]:
        """Returns one of the tables, and checks that its names are hyper-parameters of a configuration.

        Relative paths in it start from the folder of the file.

        Raises:
            InputError: for an unknown name.
        """
        values: dict[str, object] = getattr(self, name)
        try:
            config_class.check_names(values)
        except ConfigurationError as error:
            raise InputError(f"{error} in [{name}]", path=self.path) from None
        return config_class.with_paths(values, self._from_folder)

    def _from_folder(self, name: str) -> str:
        return name if name == STANDARD_STREAM else resolved_or_packaged(self.path, name)

    def model_with(self, given: Mapping[str, object]) -> dict[str, object]:
        """Returns the preset's hyper-parameters of the model, overridden by the given ones.

        Hyper-parameters of the preset that do not apply with the given ones are dropped: without attention, all options
        of attention; with global attention, the window; with a score other than concat, the width of the score; and in
        the same way those of characters.
        """
        dropped = {
            name for (option, value), names in _NOT_APPLICABLE.items() if given.get(option) == value for name in names
        }
        return {**{name: value for name, value in self.model.items() if name not in dropped}, **given}


def preset_names() -> list[str]:
    """Returns the names of the package's presets, sorted."""
    return list(toml_files("keras_encdec.architectures", "preset_files"))


def load_preset(name: str | os.PathLike[str]) -> Preset:
    """Reads a packaged preset or one of the user's, such as the `settings.toml` in a model directory.

    Args:
        name: str. One of `preset_names()`, or the path or URL of a TOML file: `architecture = "..."` and the tables
            [model], [training] and [data], each optional. Relative paths in it start from the file's folder.

    Raises:
        ConfigurationError: a ValueError, for an unknown preset.
        InputError: for a file that cannot be read, an unknown name or a value out of bounds. The names in [training]
            and [data] are checked when they are used.
    """
    check_path(name, "a preset")
    name = os.fspath(name)
    path: FilePath = toml_files("keras_encdec.architectures", "preset_files").get(name, name)
    check_can_be_read_again(path)  # commands read it for each of their configurations
    try:
        values = read_parsed(path, tomllib.loads)
    except FileNotFoundError:
        names = ", ".join(preset_names())
        raise ConfigurationError(
            "found {preset}=%r, expected one of %s, or the path of a TOML file", name, names
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"found a file that cannot be read ({error})", "expected a preset in TOML", path=path
        ) from None
    try:
        kind = architecture(values.pop("architecture", "encdec"))
        tables = {table: values.pop(table, {}) for table in TABLES}
        if values or not all(isinstance(table, dict) for table in tables.values()):
            wrong = shortened(next(iter(values), "a value instead of a table"))
            raise ValueError(f"found {wrong}, expected architecture and the tables {', '.join(TABLES)}")
        tables["model"] = kind.config.upgraded(tables["model"])
        kind.config.from_dict(tables["model"])
    except ValueError as error:
        raise InputError(str(error), path=path) from None
    return Preset(path, kind.name, **tables)


def toml_files(package: str, folder: str) -> dict[str, FilePath]:
    """Returns the paths of the TOML files in a folder of a package by their names without suffix, sorted."""
    paths = [pathlib.Path(str(file)) for file in (importlib.resources.files(package) / folder).iterdir()]
    return dict(sorted((path.stem, path) for path in paths if path.suffix == ".toml"))
