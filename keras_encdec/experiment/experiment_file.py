"""Reads the configuration of an experiment from a TOML file, packaged or the user's own."""

import dataclasses
import os
import pathlib
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import TypeVar

from keras_encdec.architectures.architecture_registry import TABLES, preset_names, toml_files
from keras_encdec.configuration import Configuration, ConfigurationError
from keras_encdec.errors import FilePath, InputError, shortened
from keras_encdec.experiment.experiment_config import (
    BaselineConfig,
    DataConfig,
    ExperimentConfig,
    FeatureConfig,
    RowConfig,
    TuningConfig,
)
from keras_encdec.experiment.moses import check_ini, check_programs
from keras_encdec.formats import InputLines, read_weights
from keras_encdec.formats.feature_weights import DECODER_FEATURES
from keras_encdec.formats.nbest_line import parse_features, parse_nbest_line
from keras_encdec.formats.phrase_table import number_of_scores
from keras_encdec.formats.record_reader import MalformedLine
from keras_encdec.model_config import model_path, resolved_or_packaged
from keras_encdec.runtime.files import absolute, check_path, is_file, is_url, resolved
from keras_encdec.runtime.input_lines import unequal_lines
from keras_encdec.runtime.settings_files import check_exists, read_toml
from keras_encdec.smt.decoder.decoding_options import DecoderWeights
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

# The features that `counts` adds.
COUNTS = ("Unknown0", "Length0")
# Number of scores of a phrase table that is extracted.
_EXTRACTED_SCORES = 4

Section = TypeVar("Section", bound=Configuration)


def experiment_names() -> list[str]:
    """Returns the names of the experiments that come with the package, sorted."""
    return list(toml_files("keras_encdec.experiment", "experiments"))


def load_experiment(name: str | os.PathLike[str]) -> ExperimentConfig:
    """Reads a packaged experiment, or a TOML file. Relative paths in the file start from its directory.

    Args:
        name: str. One of `experiment_names()`, or the path of a file.

    Raises:
        InputError: if the file cannot be read, or a setting cannot be used; the error names the section.
    """
    check_path(name, "an experiment")
    name = os.fspath(name)
    path: FilePath = toml_files("keras_encdec.experiment", "experiments").get(name, name)
    expected = f"expected an experiment in TOML, or one of {', '.join(experiment_names())}"
    return _Reader(path).read(read_toml(path, expected, "check --config"))


class _Reader:
    """Makes configurations from the values of a file. Its errors name the section of a wrong value."""

    def __init__(self, path: FilePath) -> None:
        self._path = path

    def read(self, values: Mapping[str, object]) -> ExperimentConfig:
        sections = [field.name for field in dataclasses.fields(ExperimentConfig)]
        for name in values:
            if name not in sections:
                raise self._error(f"found the unknown section {shortened(name)}", f"expected {', '.join(sections)}")
        title = values.get("title", pathlib.PurePath(os.fspath(self._path)).stem)
        if not isinstance(title, str):
            raise self._error(f"found title = {reprlib.repr(title)}", "expected text")
        data = self._section(DataConfig, "data", values.get("data", {}))
        baseline = self._section(BaselineConfig, "baseline", values.get("baseline", {}))
        features = {
            name: self._feature(name, table)
            for name, table in self._table("features", values.get("features", {})).items()
        }
        rows = values.get("rows", [])
        if not isinstance(rows, list) or not rows:
            raise self._error("found no table [[rows]]", "expected one for each row of the result")
        config = ExperimentConfig(
            title,
            data,
            baseline,
            self._section(TuningConfig, "tuning", values.get("tuning", {})),
            features,
            tuple(self._section(RowConfig, "rows", row) for row in rows),
        )
        self._check_files(config)
        self._check_features(config)
        self._check_rows(config)
        for part in ("dev", "test"):  # they are small; stages read both sides only after the first translations
            _check_sides(config.data.files[f"{part}_source"], config.data.files[f"{part}_target"])
        return config

    def _feature(self, name: str, values: object) -> FeatureConfig:
        section = f"features.{name}"
        table = dict(self._table(section, values))
        model, training, data = (self._table(f"{section}.{part}", table.get(part, {})) for part in TABLES)
        training = TrainingConfig.with_paths(training, self._resolved_model)
        table |= {"model": model, "training": training, "data": TrainingData.with_paths(data, self._resolved)}
        preset = table.get("preset")
        if isinstance(preset, str) and preset not in preset_names() and is_file(self._resolved(preset)):
            table["preset"] = self._resolved(preset)
        return self._section(FeatureConfig, section, table, self._resolved_model)

    def _check_features(self, config: ExperimentConfig) -> None:
        baseline = _baseline_features(config.baseline)
        for name, feature in config.features.items():
            where = f"in [features.{name}]"
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name):
                raise self._error(
                    f"found the name {shortened(name)} {where}", "expected a letter, then letters and digits"
                )
            other = config.features.get(feature.of) if feature.of else None
            if feature.of and (other is None or other.kind != "phrases"):
                raise self._error(f"found of={shortened(feature.of)} {where}", "expected a feature of kind phrases")
            self._check_training(config, feature, where)
            taken = baseline & ({f"{name}0"} | ({*COUNTS} if feature.counts else set()))
            if taken:
                raise self._error(
                    f"found the feature {min(taken)} {where}, which the lists of [baseline] already have",
                    "expected a new feature",
                    "give it another name" if f"{name}0" in taken else "drop counts",
                )

    def _check_rows(self, config: ExperimentConfig) -> None:
        names = [row.name for row in config.rows]
        if len(set(names)) < len(names):
            raise self._error("found two [[rows]] with the same name", "expected different names")
        for row in config.rows:
            for name in row.features:
                if name not in config.features:
                    known = ", ".join(config.features) or "none"
                    found = f"found the feature {shortened(name)} in the row {shortened(row.name)}"
                    raise self._error(found, f"expected one of {known}")
            if len(set(row.features)) < len(row.features):
                raise self._error(
                    f"found a feature twice in the row {shortened(row.name)}", "expected each feature once"
                )
            counting = [name for name in row.features if config.features[name].counts]
            for name in row.features:
                if counting and f"{name}0" in COUNTS:
                    raise self._error(
                        f"found the feature {name} in the row {shortened(row.name)}",
                        f"expected another name, as the counts of {counting[0]} are {' and '.join(COUNTS)}",
                    )
            if len(counting) > 1:
                found = f"found counts of {' and '.join(counting)} in the row {row.name}"
                raise self._error(
                    found, "expected the counts of one feature, as a list can have only one Unknown0 and one Length0"
                )

    def _check_files(self, config: ExperimentConfig) -> None:
        for where, files in (("data", config.data.files), ("baseline", config.baseline.paths())):
            for name, path in files.items():
                check_exists(path, f"{name} in [{where}]", self._path)
        if config.baseline.moses_dir:
            check_programs(config.baseline.moses_dir)
        baseline = config.baseline
        if baseline.weights:
            _check_weights(baseline, baseline.weights)
        if baseline.has_own_models or "train_source" in config.data.files:
            return
        for file, purpose in (
            (baseline.phrase_table, "to extract a phrase table"),
            (baseline.language_model, "to estimate a language model"),
        ):
            if not file:
                raise self._error("found no train_source and train_target in [data]", f"expected them {purpose}")

    def _check_training(self, config: ExperimentConfig, feature: FeatureConfig, where: str) -> None:
        if feature.model_dir:
            check_exists(_model_files(feature.model_dir), f"model_dir {where}", self._path)
        if feature.kind == "phrases" and config.baseline.has_own_models and not config.baseline.phrase_table:
            raise self._error(f"found kind=phrases {where}", "expected phrase_table in [baseline] with it")
        if feature.preset:
            if feature.kind != "phrases" and "train_source" not in config.data.files:
                raise self._error(f"found a model to train {where}", "expected train_source and train_target in [data]")
            try:
                training, data = feature.training_settings()
            except ConfigurationError as error:
                raise self._error(f"{error} {where}") from None
            given = {name: path for name, path in data.paths().items() if name in feature.data}
            named = [("validation", path) for path in given.pop("validation", ())] + [*given.items()]
            if training.initial_model:
                named.append(("initial_model", _model_files(training.initial_model)))
            for name, path in named:
                check_exists(path, f"{name} {where}", self._path)

    def _section(
        self, kind: type[Section], name: str, values: object, resolve: Callable[[str], str] | None = None
    ) -> Section:
        """Makes the configuration of a section. `resolve` is `_resolved` by default."""
        try:
            return kind.from_dict(kind.with_paths(self._table(name, values), resolve or self._resolved))
        except ConfigurationError as error:
            raise self._error(f"{error} in [{name}]") from None

    # Absolute paths: some are settings of stages, which must stay the same when a run is started in another folder.
    def _resolved(self, path: str) -> str:
        return resolved(absolute(self._path), path)

    def _resolved_model(self, path: str) -> str:
        return resolved_or_packaged(absolute(self._path), path)

    def _table(self, name: str, values: object) -> Mapping[str, object]:
        if not isinstance(values, dict):
            raise self._error(f"found {shortened(name)} = {shortened(repr(values))}", f"expected a table [{name}]")
        return values

    def _error(self, found: str, expected: str = "", remedy: str = "") -> InputError:
        return InputError(found, expected, remedy, self._path)


def _model_files(model: FilePath) -> FilePath:
    """Returns the directory of a model, also of a packaged one, or its URL."""
    return model if is_url(model) else model_path(model)


def _check_weights(baseline: BaselineConfig, path: FilePath) -> None:
    """Checks the initial weights, rather than after hours in which the phrase table is extracted."""
    if baseline.system == "moses":
        check_ini(path)
    elif baseline.system == "decoder":
        weights = read_weights(path)
        scores = number_of_scores(baseline.phrase_table) if baseline.phrase_table else _EXTRACTED_SCORES
        try:
            DecoderWeights.of_features(weights, scores)
        except InputError as error:
            raise InputError(error.found, error.expected, error.remedy, path) from None


def _check_sides(source: FilePath, target: FilePath) -> None:
    """Raises InputError unless both sides of a text have the same number of lines."""
    with InputLines(source) as sources, InputLines(target) as targets:
        if sum(1 for _ in sources) != sum(1 for _ in targets):
            raise unequal_lines(sources, targets)


def _baseline_features(baseline: BaselineConfig) -> set[str]:
    """Returns the names of the features of the baseline's lists."""
    if not baseline.dev_nbest:
        return {*DECODER_FEATURES}
    with InputLines(baseline.dev_nbest) as lines:
        first = next(iter(lines), b"")
    try:
        return {*parse_features(parse_nbest_line(first).features)}
    except MalformedLine:  # the first stage that reads it names the line
        return set()
