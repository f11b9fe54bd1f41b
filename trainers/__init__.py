"""Trains a model from a configuration and data, and writes a model directory.

Training proceeds in rounds. A round is `round_updates` updates, followed by a validation and a checkpoint. An epoch is
a pass over the pairs.
"""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.trainers.reporting import TrainingReporter as TrainingReporter
    from keras_encdec.trainers.reporting import TrainingResult as TrainingResult
    from keras_encdec.trainers.reporting import TrainingRound as TrainingRound
    from keras_encdec.trainers.tasks import TaskConfig as TaskConfig
    from keras_encdec.trainers.tasks import TrainingTasks as TrainingTasks
    from keras_encdec.trainers.train import train as train
    from keras_encdec.trainers.training_config import TrainingConfig as TrainingConfig
    from keras_encdec.trainers.training_data import TrainingData as TrainingData

lazy_imports(__name__)
