"""Training of a model: a configuration and data in, a model directory out."""

import contextlib
import importlib.util
import math
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_encdec.backend.low_precision import warn_if_slow
from keras_encdec.backend.random import set_generator_state
from keras_encdec.backend.training_step import (
    StepCompilation,
    evaluation_batches,
    prepare_process_for_training,
    training_stream,
)
from keras_encdec.configuration import ConfigurationError
from keras_encdec.data import Batches
from keras_encdec.errors import InputError
from keras_encdec.model_directory import WEIGHTS, ModelDirectory
from keras_encdec.models import build_model, model_class
from keras_encdec.runtime.directory_lock import directory_lock
from keras_encdec.runtime.sacrebleu_import import import_sacrebleu
from keras_encdec.trainers.budget import Budget, learning_rate_schedule
from keras_encdec.trainers.checkpoints import (
    HELD_OUT_BLEU,
    HELD_OUT_PERPLEXITY,
    PERPLEXITY,
    Checkpoints,
    building,
    has_checkpoint,
    load_checkpoint,
)
from keras_encdec.trainers.preparation import prepare_pairs, validation_batches
from keras_encdec.trainers.reporting import TrainingReporter
from keras_encdec.trainers.resumption import check_same_training, fixed_settings, save_settings, update_settings
from keras_encdec.trainers.round_progress import RoundReports
from keras_encdec.trainers.training_config import TrainingConfig, check_together
from keras_encdec.trainers.training_data import TrainingData
from keras_encdec.trainers.training_result import TrainingResult, TrainingRound
from keras_encdec.trainers.validation import WITHOUT, RoundAverage, ValidationBleu


class GeneratorRestoration(keras.callbacks.Callback):
    """Puts the state of the generator back before the first update, so that dropout goes on as it would have.

    Not sooner: PyTorch draws from it when it begins to read the batches, as it did at the start of the training.

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


def train(
    config: TrainingConfig,
    data: TrainingData,
    model_dir: str | os.PathLike[str],
    resume: bool = False,
    reporter: TrainingReporter | None = None,
) -> TrainingResult:
    """Learns p(target | source) from pairs, by rounds, each of which is validated and kept.

    An interrupt, termination, hang-up or quit signal ends the training after the round that it cuts short, and the
    same call with `resume` goes on from there, as it does from the last round of a process that was killed.

    Args:
        config: the model and how it is trained.
        data: what it learns from.
        model_dir: path of the model directory, made if need be. It gets the best model and the last, the
            vocabularies, the history of the rounds and the settings.
        resume: bool. Whether to go on with the training in it, if there is one: a training begins that has no round
            yet, and of one that came to its end nothing is trained. Defaults to `False`.
        reporter: told how the training goes. Defaults to a `TrainingReporter`, which prints it.

    Returns:
        TrainingResult.

    Raises:
        ConfigurationError: a ValueError, for settings that contradict, or differ from those of the training to go
            on with, and where there is a model already.
        InputError: for input that cannot be used, another training at work in the directory, a training that
            diverges, or a disk that is full.

    Example:

        config = TrainingConfig.from_preset("small", minutes=3)
        result = train(config, TrainingData(phrase_table="phrase-table.gz"), "model")
        print(result.best.val_perplexity)
    """
    check_together(config, data)
    folder = pathlib.Path(model_dir)
    with training_lock(folder):
        return _train(config, data, folder, resume, reporter or TrainingReporter())


def training_lock(folder: str | os.PathLike[str]) -> contextlib.AbstractContextManager[None]:
    """Keeps other trainings out of a model directory; see `directory_lock`."""
    return directory_lock(folder, "training", "--model_dir")


def _train(config, data, folder, resume, reporter):
    """What `train` does; nobody else trains in the folder meanwhile."""
    exists = has_checkpoint(folder)
    if exists and not resume:
        raise ConfigurationError("%s holds a model already; give another {model_dir}, or {resume} to go on", folder)
    resume = exists
    model_class(config.architecture).check_config(config.model)
    if config.validation_bleu:
        import_sacrebleu(WITHOUT)  # where it is not installed, nothing begins
    prepare_process_for_training()
    warn_if_slow(keras.DTypePolicy(config.dtype_policy).compute_dtype)
    resumed = _resumed_model(config, data, folder) if resume else None  # before anything is prepared for another one
    directory, pairs = prepare_pairs(config, data, folder, resume, reporter)
    validation, indices = validation_batches(config, data, directory, pairs)
    for name in ("average_rounds", "validation_bleu"):
        if getattr(config, name) and not validation:
            raise InputError(
                "found too few pairs to hold any out",
                "expected some to validate on",
                f"give --validation, or no --{name}",
                folder,
            )
    step = StepCompilation(config.jit_compile)
    widths = sorted(config.pad_to) if step.compiled else None
    batches = Batches(pairs, config.batch_size, indices, config.seed, widths)
    if resumed:
        model, rounds, generator = resumed
    else:
        model, rounds, generator = _new_model(config, data, directory, step), [], {}
        reporter.built(model.count_params())
    compilation = step.apply(model)
    checkpoints, budget = _fit(config, model, batches, validation, folder, rounds, generator, reporter)
    result = TrainingResult(
        folder,
        tuple(map(TrainingRound.from_dict, checkpoints.rounds)),
        TrainingRound.from_dict(checkpoints.best),
        budget.seconds,
        budget.signal,
        compilation.shapes,
        compilation.seconds,
    )
    if len(result.rounds) > len(rounds):
        if resumed:
            update_settings(folder, config)
        reporter.ended(result)
    else:
        reporter.already_ended(result)
    return result


def _new_model(config, data, directory, step):
    words = len(directory.source_vocabulary), len(directory.target_vocabulary)
    with building(config.seed):
        model = build_model(config.architecture, *words, **config.model.to_dict(), dtype=config.dtype_policy)
    model.compile(
        _optimizer(config),
        config.reduction,
        config.clip_elements or None,
        config.label_smoothing,
        jit_compile=step.jit_compile,
    )
    (directory.path / WEIGHTS).unlink(missing_ok=True)  # of a training with other vocabularies, perhaps
    directory.save_config(
        config.architecture,
        {**model.config.to_dict(), "dtype": config.dtype_policy},
        fixed_settings(config, data),
    )
    save_settings(directory.path, config, data)
    return model


def _resumed_model(config, data, folder):
    """The last model, compiled as it was, the history, and the state of the generator."""
    directory = ModelDirectory.load(folder, weights=False)
    with building():
        model, rounds, generator = load_checkpoint(folder)
    check_same_training(config, data, directory.training, model.get_config())
    # Another seed than at the start, as the first versions did not keep PyTorch's generator.
    with building((config.seed + rounds[-1]["updates"]) % 2**32):
        return model, rounds, generator


def _optimizer(config):
    published = {"rho": 0.95, "epsilon": 1e-6} if config.optimizer == "adadelta" else {}
    arguments = {"learning_rate": config.learning_rate, "global_clipnorm": config.clip_norm or None, **published}
    return keras.optimizers.get({"class_name": config.optimizer, "config": arguments})


def _fit(
    config: TrainingConfig,
    model: keras.Model,
    batches: Batches,
    validation: Batches | None,
    folder: pathlib.Path,
    rounds: Sequence[dict[str, Any]],
    generator: Mapping[str, np.ndarray],
    reporter: TrainingReporter,
) -> tuple[Checkpoints, Budget]:
    """Runs `model.fit` by rounds until the budget is spent; without `validation` the training perplexity decides."""
    first_update = rounds[-1]["updates"] if rounds else 0
    updates = _updates(config, batches.updates_per_epoch)
    budget = Budget(
        config.learning_rate,
        learning_rate_schedule(config.schedule, config.halving_start, config.halving_every),
        batches.updates_per_epoch,
        updates,
        config.minutes and 60 * config.minutes,
        first_update,
        rounds[-1]["seconds"] if rounds else 0.0,
        config.warmup_updates,
    )
    average = RoundAverage(folder, budget, config.average_rounds, rounds) if config.average_rounds else None
    bleu = ValidationBleu(model, validation.once()) if config.validation_bleu else None
    monitor = HELD_OUT_BLEU if bleu else HELD_OUT_PERPLEXITY if validation else PERPLEXITY
    patience_updates = config.patience_epochs and config.patience_epochs * batches.updates_per_epoch
    checkpoints = Checkpoints(folder, budget, batches.batch_size, monitor, rounds, config.patience, patience_updates)
    if budget.done < 1.0 and not checkpoints.out_of_patience:
        callbacks = [
            bleu,  # before the budget, so that the time it takes counts at once
            budget,
            *reporter.callbacks(budget, batches.updates_per_epoch),
            *_tensorboard(config, folder),
            average,
            checkpoints,
            RoundReports(reporter, budget, checkpoints, batches.updates_per_epoch),
            GeneratorRestoration(generator) if generator else None,
        ]
        model.fit(
            training_stream(lambda: batches.stream(first_update)),
            validation_data=validation and evaluation_batches(validation.once),
            steps_per_epoch=min(config.round_updates, updates - first_update) if updates else config.round_updates,
            initial_epoch=len(rounds),
            epochs=sys.maxsize,
            shuffle=False,  # they come in random order
            verbose=0,
            callbacks=[callback for callback in callbacks if callback],
        )
    if average and not budget.signal and "averaged_rounds" not in checkpoints.rounds[-1]:
        if not average.rounds:
            raise InputError(
                "found a training that has come to its end and kept no rounds",
                "expected some to average",
                "drop --average_rounds, or raise --updates, --epochs or --minutes",
                folder,
            )
        _add_average(model, average, validation, bleu, checkpoints)
    return checkpoints, budget


def _add_average(model, average, validation, bleu, checkpoints):
    """Validates the average of the last rounds, and keeps it if it is the best."""
    last, (weights, number) = model.get_weights(), average.mean()
    model.set_weights(weights)
    measured = model.evaluate(evaluation_batches(validation.once), verbose=0, return_dict=True)
    if bleu:
        measured["bleu"] = bleu.measure()
    model.set_weights(last)
    checkpoints.add_average(model, weights, number, measured)


def _updates(config, updates_per_epoch):
    limits = [config.updates, config.epochs and math.ceil(config.epochs * updates_per_epoch)]
    return min((limit for limit in limits if limit), default=None)


def _tensorboard(config, folder):
    if not config.tensorboard or not all(map(importlib.util.find_spec, ("tensorflow", "tensorboard"))):
        return []
    return [keras.callbacks.TensorBoard(folder / "logs", write_graph=False)]
