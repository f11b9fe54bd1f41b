"""Runs an experiment: plans its stages from a configuration, runs them, and writes the paper's Table 1."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

from keras_encdec.errors import FilePath
from keras_encdec.experiment import moses, stage_functions
from keras_encdec.experiment.experiment_config import VALIDATED_ON, ExperimentConfig, FeatureConfig
from keras_encdec.experiment.experiment_file import load_experiment
from keras_encdec.experiment.results import RESULTS, ExperimentResult, draw_results, read_result, write_results
from keras_encdec.experiment.stage_runner import (
    RECORDS,
    Stage,
    StageFunction,
    StageProgress,
    StageResult,
    result_folder,
    run_stages,
)
from keras_encdec.model_config import model_path
from keras_encdec.runtime.progress import Progress
from keras_encdec.runtime.remote_folders import LocalFiles
from keras_encdec.trained_model import TrainedModel, check_is_language_model, check_translates


def experiment(
    config: ExperimentConfig | FilePath,
    output: FilePath,
    *,
    begun: Callable[[Stage, int], object] = lambda stage, number_of_stages: None,
    ended: Callable[[StageResult], object] = lambda result: None,
    progress: StageProgress = Progress,
) -> ExperimentResult:
    """Measures what features add to a translation system: Table 1 of Cho et al., 2014.

    The baseline's n-best lists get the features of each row, the weights are tuned on the development set with several
    seeds, and the test set is translated with them. Every stage leaves a record in `output`; a second call runs only
    the stages whose inputs or settings have changed since, and continues interrupted stages.

    Args:
        config: ExperimentConfig; or the path or URL of its TOML file; or the name of a packaged experiment.
        output: directory to write to, or its URL, made if it is missing: `results.md`, `results.json`, `results.svg`,
            `results.png`, the models, the n-best lists with features, weights and translations.
        begun: function that is called with a Stage and the number of all stages before each stage that runs. Defaults
            to one that does nothing.
        ended: function that is called with a StageResult after each stage. Defaults to one that does nothing.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.

    Raises:
        ConfigurationError, InputError: if settings or files cannot be used.
        ImportError: if a library is missing.
        TrainingStopped: if a signal stopped a training run.

    Example:

        print(experiment("experiment.toml", "table1"))
    """
    config = config if isinstance(config, ExperimentConfig) else load_experiment(config)
    with result_folder(output, "experiment", ended) as (folder, ended_and_saved), LocalFiles({output: folder}) as local:
        stages = StagePlan(config, folder, local).stages()
        results = run_stages(stages, folder / RECORDS, begun, ended_and_saved, progress)
        result = read_result(config, json.loads((folder / EVALUATION).read_text(encoding="utf-8")), results)
        write_results(result, folder)  # before the plot, whose library may be missing
        if notices := draw_results(result, folder):
            result = dataclasses.replace(result, notices=notices)
            write_results(result, folder)
    return result


EVALUATION = "evaluation.json"
# N-best lists by part, "dev" and "test".
Lists = Mapping[str, pathlib.Path]
# Columns that `score_table` appends to the scores of a phrase table, counted from the end.
MODEL_COLUMN, UNKNOWN_COLUMN = -2, -1


class StagePlan:
    """The stages of an experiment, each after the stages that it depends on.

    Args:
        config: ExperimentConfig.
        output: directory for everything that the stages write.
        local: LocalFiles, the copies of remote files that stages read.
    """

    def __init__(self, config: ExperimentConfig, output: pathlib.Path, local: LocalFiles) -> None:
        self._config, self._output, self._local = config, output, local
        self._stages: list[Stage] = []
        self._text = {name: self._path(path) for name, path in config.data.files.items()}

    def stages(self) -> list[Stage]:
        """Plans the stages of all rows, and of everything that the rows need; the last one writes `EVALUATION`."""
        lists, weights = self._baseline()
        references = {name: self._text[name] for name in ("dev_target", "test_target")}
        tuning, folders = self._config.tuning, {}
        for number, row in enumerate(self._config.rows):
            nbest = {f"{part}_nbest": self._with_features(part, lists[part], row.features) for part in ("dev", "test")}
            inputs, outputs = {**nbest, **references, "weights": weights}, {"output": f"rows/{number}"}
            folder = self._add(f"tune-{number}", stage_functions.tune_row, inputs, outputs, tuning.to_dict())
            folders[f"row_{number}"] = folder
        self._add(
            "evaluate",
            stage_functions.evaluate_rows,
            {**references, **folders},
            {"output": EVALUATION},
            {"metric": tuning.metric, "seeds": tuning.seeds},
            reports=[self._output / name for name in RESULTS],
        )
        return self._stages

    def _path(self, path: str) -> pathlib.Path:
        return pathlib.Path(self._local.path(path))

    def _add(
        self,
        name: str,
        function: StageFunction,
        inputs: Mapping[str, pathlib.Path],
        outputs: Mapping[str, str],
        settings: Mapping[str, object] | None = None,
        reports: Sequence[pathlib.Path] = (),
    ) -> pathlib.Path:
        """Adds a stage if it is not planned yet, and returns the path of its first output."""
        paths = {argument: self._output / path for argument, path in outputs.items()}
        if all(stage.name != name for stage in self._stages):
            self._stages.append(Stage(name, function, inputs, paths, settings or {}, reports=reports))
        return next(iter(paths.values()))

    def _baseline(self) -> tuple[Lists, pathlib.Path]:
        """Returns the n-best lists by part, and the file of the initial weights."""
        baseline = self._config.baseline
        if baseline.system == "lists":
            files = {name: self._path(path) for name, path in baseline.paths().items()}
            return {"dev": files["dev_nbest"], "test": files["test_nbest"]}, files["weights"]
        return self._decoder_baseline() if baseline.system == "decoder" else self._moses_baseline()

    def _decoder_baseline(self) -> tuple[Lists, pathlib.Path]:
        baseline = self._config.baseline
        models = {"phrase_table": self._phrase_table, "language_model": self._language_model()}
        start = {"weights": self._path(baseline.weights)} if baseline.weights else {}
        tuned = self._add(
            "tune-decoder",
            stage_functions.tune_baseline,
            {"source": self._text["dev_source"], "target": self._text["dev_target"], **models, **start},
            {"output": "baseline"},
            {"rounds": baseline.rounds, "nbest_size": baseline.nbest_size, "metric": self._config.tuning.metric},
        )
        weights = tuned / "weights"
        test = self._add(
            "decode-test",
            stage_functions.decode,
            {"source": self._text["test_source"], "weights": weights, **models},
            {"nbest": "nbest/test.gz"},
            {"nbest_size": baseline.nbest_size},
        )
        return {"dev": tuned / "nbest.gz", "test": test}, weights

    def _moses_baseline(self) -> tuple[Lists, pathlib.Path]:
        baseline = self._config.baseline
        settings = {"moses_dir": baseline.moses_dir, "nbest_size": baseline.nbest_size}
        text = {name: self._escaped(name) for name in ("dev_source", "dev_target", "test_source")}
        if baseline.weights:
            ini = self._path(baseline.weights)
            # moses.ini only names these files, but the output of Moses depends on them.
            models = {f"model_{number}": path for number, path in enumerate(moses.files_of_ini(ini))}
        else:
            models = {"phrase_table": self._phrase_table, "language_model": self._language_model(escaped=True)}
            moses.check_paths(models)
            ini = self._add(
                "moses-ini", moses.write_moses_ini, models, {"output": "moses.ini"}, {"order": baseline.ngram_order}
            )
        tuned = self._add(
            "tune-moses",
            moses.tune_moses,
            {"source": text["dev_source"], "target": text["dev_target"], "ini": ini, **models},
            {"output": "baseline"},
            settings,
        )
        lists = {
            part: self._add(
                f"decode-{part}",
                moses.decode_with_moses,
                {"source": text[f"{part}_source"], "tuned": tuned, **models},
                {"nbest": f"nbest/{part}.nbest"},
                settings,
            )
            for part in ("dev", "test")
        }
        return lists, tuned / "moses.ini"

    def _escaped(self, name: str) -> pathlib.Path:
        return self._add(f"escape-{name}", moses.escape_text, {"text": self._text[name]}, {"output": f"text/{name}"})

    def _language_model(self, escaped: bool = False) -> pathlib.Path:
        baseline = self._config.baseline
        if baseline.language_model:
            return self._path(baseline.language_model)
        text = self._escaped("train_target") if escaped else self._text["train_target"]
        return self._add(
            "ngrams", stage_functions.estimate, {"text": text}, {"arpa": "ngrams.arpa"}, {"order": baseline.ngram_order}
        )

    @functools.cached_property
    def _phrase_table(self) -> pathlib.Path:
        baseline = self._config.baseline
        if baseline.phrase_table:
            return self._path(baseline.phrase_table)
        return self._add(
            "extract",
            stage_functions.extract,
            {"source": self._text["train_source"], "target": self._text["train_target"]},
            {"phrase_table": "phrase-table.gz"},
            {"aligner": baseline.aligner, "symmetrization": baseline.symmetrization},
        )

    def _with_features(self, part: str, nbest: pathlib.Path, names: Sequence[str]) -> pathlib.Path:
        """Adds features to an n-best list one by one, so that rows share the lists of their common first features."""
        for number in range(1, len(names) + 1):
            nbest = self._with_feature(part, nbest, names[:number])
        return nbest

    def _with_feature(self, part: str, nbest: pathlib.Path, names: Sequence[str]) -> pathlib.Path:
        name = names[-1]
        feature = self._config.features[name]
        stage, output = "-".join(["add", *names, part]), {"output": f"nbest/{'-'.join(names)}.{part}.gz"}
        inputs = {"nbest": nbest, "source": self._text[f"{part}_source"]}
        if feature.kind in ("phrases", "unknown_words"):
            inputs["phrase_table"] = self._scored_table(feature.of or name)
            settings = {"feature": f"{name}0", "column": MODEL_COLUMN if feature.kind == "phrases" else UNKNOWN_COLUMN}
            return self._add(stage, stage_functions.add_table_feature, inputs, output, settings)
        inputs["model_dir"] = self._model(name, feature)
        settings = {"feature": f"{name}0", "counts": feature.counts}
        return self._add(stage, stage_functions.score_nbest, inputs, output, settings)

    def _scored_table(self, name: str) -> pathlib.Path:
        return self._add(
            f"score-{name}",
            stage_functions.score_table,
            {"phrase_table": self._phrase_table, "model_dir": self._model(name, self._config.features[name])},
            {"scored": f"phrase-table.{name}.gz"},
        )

    def _model(self, name: str, feature: FeatureConfig) -> pathlib.Path:
        """Returns the given directory of a model, or that of a stage that trains the model."""
        if feature.model_dir:
            known, setting = TrainedModel.read(self._local.in_staged(feature.model_dir)), f"[features.{name}]"
            if feature.kind == "language_model":
                check_is_language_model(known.has_source, known.path, setting)
            else:
                check_translates(known, flag=setting)
            return known.path
        files = self._training_files(feature)
        config, data = feature.training_settings()
        options = data.to_dict()
        files |= {option: self._path(options.pop(option)) for option in data.paths() if option != "validation"}
        if validation := feature.validation(data):
            files |= zip(VALIDATED_ON[feature.kind], map(self._path, validation), strict=True)
            del options["validation"]
        if config.initial_model:
            files["configured_model"] = model_path(self._local.in_staged(config.initial_model))
        settings: dict[str, object] = {"config": config.to_dict(), "data": options}
        return self._add(f"train-{name}", stage_functions.train_model, files, {"model_dir": f"models/{name}"}, settings)

    def _training_files(self, feature: FeatureConfig) -> dict[str, pathlib.Path]:
        if feature.kind == "phrases":
            return {"phrase_table": self._phrase_table}
        files = {"target": self._text["train_target"], "validation_target": self._text["dev_target"]}
        if feature.kind == "sentences":
            files |= {"source": self._text["train_source"], "validation_source": self._text["dev_source"]}
        return files
