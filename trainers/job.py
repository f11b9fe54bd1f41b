"""A training run in a folder: its arguments, and the devices that share it."""

import dataclasses
import pathlib
from collections.abc import Callable

from keras_encdec.backend.replicas import Replicas
from keras_encdec.trainers.reporting import TrainingReporter
from keras_encdec.trainers.tasks import TrainingTasks
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData


@dataclasses.dataclass(frozen=True)
class TrainingJob:
    """A training run in a folder that no other run uses.

    Attributes:
        config: TrainingConfig.
        data: TrainingData.
        folder: pathlib.Path of the model directory.
        reporter: TrainingReporter, which gets the progress.
        replicas: Replicas that share the training.
        tasks: TrainingTasks; `None` for one task.
        saved: function to call after each checkpoint is saved. Defaults to a function that does nothing.
    """

    config: TrainingConfig
    data: TrainingData
    folder: pathlib.Path
    reporter: TrainingReporter
    replicas: Replicas
    tasks: TrainingTasks | None
    saved: Callable[[], object] = lambda: None
