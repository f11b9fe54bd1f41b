"""Configurations of experiments in TOML files, those of the package and the user's own."""

import dataclasses
import importlib.resources
import os
import pathlib
import re
import tomllib

from keras_encdec.architectures.presets import preset_names
from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError, shortened
from keras_encdec.experiment.experiment_config import (
    DATA_FILES,
    SIDES,
    BaselineConfig,
    DataConfig,
    ExperimentConfig,
    FeatureConfig,
    RowConfig,
    TuningConfig,
)
from keras_encdec.experiment.moses import check_programs
from keras_encdec.runtime.settings_files import read_parsed


def experiment_names() -> list[str]:
    """Names of the experiments that come with the package, sorted."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def load_experiment(name: str | os.PathLike[str]) -> ExperimentConfig:
    """Reads an experiment of the package, or a TOML file; relative paths in it start from the file's directory.

    Args:
        name: str. One of `experiment_names()`, or the path of a file.

    Raises:
        InputError: for a file that cannot be read, and for settings that cannot be used, with their section.
    """
    name = os.fspath(name)
    path = pathlib.Path(str(_folder() / f"{name}.toml")) if name in experiment_names() else pathlib.Path(name)
    try:
        values = read_parsed(path, tomllib.loads)
    except (OSError, ValueError) as error:
        names = ", ".join(experiment_names())
        reason = "no file there" if isinstance(error, FileNotFoundError) else f"a file that does not read ({error})"
        raise InputError(f"found {reason}", f"expected an experiment in TOML, or one of {names}", path=path) from None
    return _Reader(path).read(values)


class _Reader:
    """Makes configurations from the values of a file, and names the section of wrong values."""

    def __init__(self, path):
        self._path = path

    def read(self, values):
        sections = [field.name for field in dataclasses.fields(ExperimentConfig)]
        for name in values:
            if name not in sections:
                raise self._error(f"found the unknown section {shortened(name)}", f"expected {', '.join(sections)}")
        title = values.get("title", self._path.stem)
        data = self._section(DataConfig, "data", values.get("data", {}), SIDES)
        baseline = self._section(
            BaselineConfig,
            "baseline",
            values.get("baseline", {}),
            ("phrase_table", "language_model", "dev_nbest", "test_nbest", "weights", "moses_dir"),
        )
        features = {
            name: self._feature(name, table)
            for name, table in self._table("features", values.get("features", {})).items()
        }
        rows = values.get("rows", [])
        if not isinstance(rows, list) or not rows:
            raise self._error("found no table [[rows]]", "expected one for each row of the result")
        config = ExperimentConfig(
            str(title),
            data,
            baseline,
            self._section(TuningConfig, "tuning", values.get("tuning", {})),
            features,
            tuple(self._section(RowConfig, "rows", row) for row in rows),
        )
        self._check(config)
        return config

    def _feature(self, name, table):
        section = f"features.{name}"
        table = dict(self._table(section, table))
        data = table.get("data")
        if isinstance(data, dict):
            table["data"] = self._with_paths(data, DATA_FILES)
        preset = table.get("preset")
        is_file = isinstance(preset, str) and preset not in preset_names() and (self._path.parent / preset).is_file()
        return self._section(FeatureConfig, section, table, ("model_dir", "preset") if is_file else ("model_dir",))

    def _check(self, config):
        for name, feature in config.features.items():
            where = f"in [features.{name}]"
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name):
                raise self._error(f"found the name {shortened(name)} {where}", "expected letters and digits")
            if feature.of and getattr(config.features.get(feature.of), "kind", None) != "phrases":
                raise self._error(f"found of={shortened(feature.of)} {where}", "expected a feature of kind phrases")
            self._check_training(config, feature, where)
        names = [row.name for row in config.rows]
        if len(set(names)) < len(names):
            raise self._error("found two [[rows]] of one name", "expected different names")
        for row in config.rows:
            for name in row.features:
                if name not in config.features:
                    known = ", ".join(config.features) or "none"
                    found = f"found the feature {shortened(name)} in the row {shortened(row.name)}"
                    raise self._error(found, f"expected one of {known}")
            if len(set(row.features)) < len(row.features):
                raise self._error(f"found a feature twice in the row {shortened(row.name)}", "expected each once")
            counting = [name for name in row.features if config.features[name].counts]
            if len(counting) > 1:
                found = f"found counts of {' and '.join(counting)} in the row {row.name}"
                raise self._error(found, "expected one, as Unknown0 and Length0 are one feature each")
        for where, files in (("data", config.data.files), ("baseline", config.baseline.files)):
            for name, path in files.items():
                self._check_exists(path, f"{name} in [{where}]")
        if config.baseline.moses_dir:
            check_programs(config.baseline.moses_dir)
        has_text = "train_source" in config.data.files
        needs = [
            (config.baseline.system != "lists" and not config.baseline.phrase_table, "a phrase table is extracted"),
            (config.baseline.system != "lists" and not config.baseline.language_model, "a language model is estimated"),
        ]
        for needed, why in needs:
            if needed and not has_text:
                raise self._error("found no train_source and train_target in [data]", f"expected them, as {why}")

    def _check_training(self, config, feature, where):
        if feature.model_dir:
            self._check_exists(feature.model_dir, f"model_dir {where}")
        for name in DATA_FILES:
            if feature.data.get(name):
                self._check_exists(feature.data[name], f"{name} {where}")
        if feature.kind == "phrases" and config.baseline.system == "lists" and not config.baseline.phrase_table:
            raise self._error(f"found kind=phrases {where}", "expected phrase_table in [baseline] with it")
        if feature.preset:
            if feature.kind != "phrases" and "train_source" not in config.data.files:
                raise self._error(f"found a model to train {where}", "expected train_source and train_target in [data]")
            try:
                feature.training_settings()
            except ConfigurationError as error:
                raise self._error(f"{error} {where}") from None

    def _check_exists(self, path, setting):
        if not pathlib.Path(path).exists():
            raise self._error(f"found no file {path}, {setting}", "expected one", "check the path")

    def _section(self, kind, name, values, paths=()):
        values = self._with_paths(self._table(name, values), paths)
        try:
            return kind.from_dict(values)
        except ConfigurationError as error:
            raise self._error(f"{error} in [{name}]") from None

    def _with_paths(self, values, names):
        """The values, with the paths among them made relative to the file's directory."""
        paths = {name: values[name] for name in names if isinstance(values.get(name), str)}
        folder = self._path.parent
        return {**values, **{name: str(folder / pathlib.Path(path).expanduser()) for name, path in paths.items()}}

    def _table(self, name, values):
        if not isinstance(values, dict):
            raise self._error(f"found {shortened(name)} = {shortened(repr(values))}", f"expected a table [{name}]")
        return values

    def _error(self, found, expected="", remedy=""):
        return InputError(found, expected, remedy, self._path)


def _folder():
    return importlib.resources.files("keras_encdec.experiment") / "experiments"
