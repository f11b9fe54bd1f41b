"""Runs the rounds of a training: `model.fit` with the callbacks that stop, validate, save and report it."""

import importlib.util
import math
import pathlib
import sys
from collections.abc import Mapping
from typing import NamedTuple

import keras
import numpy as np

from keras_encdec.backend.random import set_generator_state
from keras_encdec.backend.training_step import evaluation_batches, training_stream
from keras_encdec.data import Batches
from keras_encdec.errors import InputError
from keras_encdec.runtime.progress_state import ProgressRecord
from keras_encdec.trainers.budget import Budget, learning_rate_schedule
from keras_encdec.trainers.checkpoints import HELD_OUT_BLEU, HELD_OUT_PERPLEXITY, PERPLEXITY, Checkpoints
from keras_encdec.trainers.reporting import ProgressUpdates, RoundReports, TrainingReporter
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.validation import RoundAverage, ValidationBleu, add_average

# In the model directory.
PROGRESS = "progress.json"


class TrainingState(NamedTuple):
    """A model to train, and the rounds before a resumption.

    Attributes:
        model: compiled TranslationModel.
        rounds: list of dict, see `Checkpoints.rounds`; empty for a new model.
        generator_state: dict, see `keras_encdec.backend.random.set_generator_state`; empty if it is unknown.
    """

    model: keras.Model
    rounds: list[dict[str, float]]
    generator_state: Mapping[str, np.ndarray]


def fit(
    config: TrainingConfig,
    state: TrainingState,
    batches: Batches,
    validation: Batches | None,
    folder: pathlib.Path,
    reporter: TrainingReporter,
) -> tuple[Checkpoints, Budget]:
    """Trains round by round until the budget is spent, the patience is exhausted or a signal arrives.

    Args:
        config: TrainingConfig.
        state: TrainingState. Its model is trained in place.
        batches: Batches to train on.
        validation: Batches to validate on. With `None`, the best round is the one with the lowest training perplexity.
        folder: path of the model directory.
        reporter: TrainingReporter, which gets the progress.

    Returns:
        tuple: Checkpoints with the rounds; Budget with the time and the signal.

    Raises:
        InputError: when the training diverges, the disk is full, or there are no saved rounds to average.
    """
    model, rounds, generator_state = state
    first_update, first_seconds = (int(rounds[-1]["updates"]), rounds[-1]["seconds"]) if rounds else (0, 0.0)
    updates = _update_limit(config, batches.updates_per_epoch)
    budget = Budget(
        config.learning_rate,
        learning_rate_schedule(config.schedule, config.halving_start, config.halving_every),
        batches.updates_per_epoch,
        updates,
        config.minutes and 60 * config.minutes,
        first_update,
        first_seconds,
        config.warmup_updates,
    )
    average = RoundAverage(folder, budget, config.average_rounds, rounds) if config.average_rounds else None
    bleu = ValidationBleu(model, validation.once()) if config.validation_bleu and validation else None
    monitor = HELD_OUT_BLEU if bleu else HELD_OUT_PERPLEXITY if validation else PERPLEXITY
    patience_updates = config.patience_epochs and config.patience_epochs * batches.updates_per_epoch
    checkpoints = Checkpoints(folder, budget, batches.batch_size, monitor, rounds, config.patience, patience_updates)
    if budget.done < 1.0 and not checkpoints.out_of_patience:
        record = ProgressRecord("encdec-train", folder / PROGRESS)
        callbacks = [
            bleu,  # comes before the budget, so that the budget counts its time in the same round
            budget,
            *reporter.callbacks(budget, batches.updates_per_epoch),
            *_tensorboard(config, folder),
            average,
            checkpoints,
            ProgressUpdates(record, budget),
            RoundReports(reporter, budget, checkpoints, batches.updates_per_epoch),
            GeneratorRestoration(generator_state) if generator_state else None,
        ]
        with record:
            model.fit(
                training_stream(lambda: batches.stream(first_update)),
                validation_data=validation and evaluation_batches(validation.once),
                # Keras calls a round an epoch.
                steps_per_epoch=min(config.round_updates, updates - first_update) if updates else config.round_updates,
                initial_epoch=len(rounds),
                epochs=sys.maxsize,
                shuffle=False,  # the stream of batches is already in random order
                verbose=0,
                callbacks=[callback for callback in callbacks if callback],
            )
    if average and validation and not budget.signal and "averaged_rounds" not in checkpoints.rounds[-1]:
        if not average.rounds:
            raise InputError(
                "found a training that has ended and saved no rounds",
                "expected saved rounds to average",
                "drop --average_rounds, or raise --updates, --epochs or --minutes",
                folder,
            )
        add_average(model, average, validation, bleu, checkpoints)
    return checkpoints, budget


def _update_limit(config: TrainingConfig, updates_per_epoch: int) -> int | None:
    """Computes the number of updates after which the training ends; `None` for no limit."""
    limits = [config.updates, config.epochs and math.ceil(config.epochs * updates_per_epoch)]
    return min((limit for limit in limits if limit), default=None)


def _tensorboard(config: TrainingConfig, folder: pathlib.Path) -> list[keras.callbacks.Callback]:
    if not config.tensorboard or not all(map(importlib.util.find_spec, ("tensorflow", "tensorboard"))):
        return []
    return [keras.callbacks.TensorBoard(folder / "logs", write_graph=False)]


class GeneratorRestoration(keras.callbacks.Callback):
    """Restores the state of the random generator before the first update of a resumed training.

    Dropout then continues with the random numbers of an uninterrupted training. An earlier restoration would be undone:
    PyTorch draws from the generator when it begins to read the batches.

    Args:
        state: dict, see `keras_encdec.backend.random.set_generator_state`.
    """

    def __init__(self, state: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self._state = state

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._is_restored = False

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if not self._is_restored:
            set_generator_state(self._state)
            self._is_restored = True
