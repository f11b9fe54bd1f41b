"""Measures what neural features add to a translation system, as in the paper's Table 1, on any data."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.experiment.experiment import experiment as experiment
    from keras_encdec.experiment.experiment_config import BaselineConfig as BaselineConfig
    from keras_encdec.experiment.experiment_config import DataConfig as DataConfig
    from keras_encdec.experiment.experiment_config import ExperimentConfig as ExperimentConfig
    from keras_encdec.experiment.experiment_config import FeatureConfig as FeatureConfig
    from keras_encdec.experiment.experiment_config import RowConfig as RowConfig
    from keras_encdec.experiment.experiment_config import TuningConfig as TuningConfig
    from keras_encdec.experiment.experiment_file import experiment_names as experiment_names
    from keras_encdec.experiment.experiment_file import load_experiment as load_experiment
    from keras_encdec.experiment.results import ExperimentResult as ExperimentResult
    from keras_encdec.experiment.results import RowResult as RowResult
    from keras_encdec.experiment.stage_runner import Stage as Stage
    from keras_encdec.experiment.stage_runner import StageResult as StageResult
    from keras_encdec.experiment.stage_runner import run_stages as run_stages

lazy_imports(__name__)
