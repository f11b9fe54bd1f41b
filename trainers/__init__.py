"""Training as functions: a configuration and data in, a model directory out.

A training goes by rounds: a round is the interval from one validation and checkpoint to the next, `round_updates`
updates. An epoch is a pass over the pairs.
"""

from typing import TYPE_CHECKING

from keras_encdec.runtime.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.trainers.reporting import TrainingReporter as TrainingReporter
    from keras_encdec.trainers.train import train as train
    from keras_encdec.trainers.training_config import TrainingConfig as TrainingConfig
    from keras_encdec.trainers.training_data import TrainingData as TrainingData
    from keras_encdec.trainers.training_result import TrainingResult as TrainingResult
    from keras_encdec.trainers.training_result import TrainingRound as TrainingRound

lazy_imports(__name__)
