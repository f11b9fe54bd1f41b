"""Runs the rounds of training: `model.fit` with the callbacks that stop, prune, validate, save and report it."""

import contextlib
import importlib.util
import math
import pathlib
import sys
import warnings
from collections.abc import Iterator

import keras
import numpy as np

from keras_encdec.backend.replicas import Compilation, Replicas, set_generator_state
from keras_encdec.backend.training_step import evaluation_batches, sync_training_state, training_stream
from keras_encdec.configuration import product_rounded_up
from keras_encdec.data import Batches
from keras_encdec.errors import EncdecWarning
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.pruning.pruning_masks import PruningMasks
from keras_encdec.runtime.progress_state import ProgressRecord
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.callbacks import (
    ProgressUpdates,
    RoundAverage,
    RoundReports,
    UpdateReports,
    ValidationBleu,
    add_average,
)
from keras_encdec.trainers.checkpoints import (
    HELD_OUT_BLEU,
    HELD_OUT_PERPLEXITY,
    PERPLEXITY,
    Checkpoints,
    StoppedInRound,
)
from keras_encdec.trainers.job import TrainingJob
from keras_encdec.trainers.resumption import Progress, TrainingState, round_sums, without_averages
from keras_encdec.trainers.settings_checks import changed_learning_rate
from keras_encdec.trainers.training_config import TrainingConfig

# Name of the progress file in the model directory, and of the task in it.
PROGRESS, _TASK = "progress.json", "encdec-train"
# Pruning ends after this share of the training. The rest of the training adjusts the remaining weights.
PRUNING_END = 0.75
# Number of steps in which the pruned share grows.
PRUNING_STEPS = 100


def fit(
    job: TrainingJob,
    state: TrainingState,
    batches: Batches,
    validation: Batches | None,
    compilation: Compilation,
    ending: contextlib.ExitStack,
) -> tuple[Checkpoints, Budget]:
    """Trains round by round until the budget is spent, the patience is exhausted or a signal arrives.

    Args:
        job: TrainingJob.
        state: TrainingState. Its model is trained in place.
        batches: Batches to train on.
        validation: Batches to validate on. With `None`, the best round is the one with the lowest training perplexity.
        compilation: Compilation. The time of compiling does not count.
        ending: ExitStack that is closed when all files of the training are written; then its progress is "finished".

    Returns:
        tuple: Checkpoints with the rounds; Budget with the time and the signal.

    Raises:
        InputError: if the training diverges, the disk is full, or there are no saved rounds to average.
    """
    config, folder, reporter, replicas = job.config, job.folder, job.reporter, job.replicas
    model, progress = state
    budget = Budget(config, batches.updates_per_epoch, progress, compilation, replicas)
    average = RoundAverage(folder, budget, config.average_rounds, progress.rounds) if config.average_rounds else None
    bleu = _validation_bleu(config, model, validation)
    checkpoints = _checkpoints(job, progress, batches, validation, budget)
    pruning = _gradual_pruning(config, model, budget)
    # One more round is needed even if the budget is spent: after a run that was killed in its first round, which has no
    # best model, and while fewer weights are pruned than requested.
    needs_round = not progress.rounds or pruning is not None and pruning.is_late
    if has_rounds := needs_round or budget.done < 1.0 and not checkpoints.out_of_patience:
        record = ending.enter_context(ProgressRecord(_TASK, folder / PROGRESS)) if replicas.is_chief else None
        if progress.updates and replicas.is_chief and (changed := changed_learning_rate(folder, config)):
            reporter.changed(changed)
        update_reports = UpdateReports(reporter, budget, batches.batch_size, compilation)
        # The order matters: each reads what those before it did after the same update, or at the end of the round.
        callbacks = [
            bleu,  # its time belongs to the round that the budget ends
            budget,
            pruning,
            *reporter.callbacks(budget, batches.updates_per_epoch),
            *(_tensorboard(config, folder) if replicas.is_chief else ()),
            average,  # each round in the checkpoints' history has its file
            checkpoints,
            record and ProgressUpdates(record, budget),
            update_reports,
            RoundReports(reporter, budget, checkpoints),
            Restoration(progress, replicas),  # the others reset the sums that it restores
        ]
        round_updates = config.round_updates
        if updates := budget.updates:
            left = updates - progress.updates + progress.round_updates
            round_updates = max(1, min(round_updates, left))
            if updates <= config.warmup_updates:
                reporter.ends_in_warmup(updates, config.warmup_updates)
        with replicas.training(), update_reports, contextlib.ExitStack() as stack:
            stack.callback(budget.on_train_end)  # which Keras does not call after an error
            _run_rounds(state, batches, validation, round_updates, [each for each in callbacks if each], replicas)
    if average and validation and not budget.signal and "averaged_rounds" not in checkpoints.rounds[-1]:
        average.check_saved()
        if not has_rounds and replicas.is_chief:
            ending.enter_context(end_recorded(folder, budget.updates_done))
        with replicas.training():
            add_average(model, average, validation, bleu, checkpoints)
    return checkpoints, budget


@contextlib.contextmanager
def end_recorded(folder: pathlib.Path, updates: int) -> Iterator[None]:
    """Keeps the record of a run that has ended, while its last files are written in the `with` block.

    Args:
        folder: path of the model directory.
        updates: int. Number of updates, all done.
    """
    with ProgressRecord(_TASK, folder / PROGRESS) as record:
        record.begin("updates", updates, share=1.0)
        yield


def _run_rounds(
    state: TrainingState,
    batches: Batches,
    validation: Batches | None,
    round_updates: int,
    callbacks: list[keras.callbacks.Callback],
    replicas: Replicas,
) -> None:
    """Runs `model.fit`, whose epochs are rounds, until a callback stops it."""
    model, progress = state
    try:
        model.fit(
            training_stream(lambda: map(replicas.part, batches.stream(progress.updates))),
            validation_data=validation and evaluation_batches(list(map(replicas.part, validation.once()))),
            steps_per_epoch=round_updates,
            initial_epoch=len(without_averages(progress.rounds)),
            epochs=sys.maxsize,
            shuffle=False,  # the stream of batches is already in random order
            verbose=0,
            callbacks=callbacks,
        )
    except StoppedInRound:
        for callback in callbacks:
            callback.on_train_end()


def _validation_bleu(
    config: TrainingConfig, model: TranslationModel, validation: Batches | None
) -> ValidationBleu | None:
    if not config.validation_bleu or not validation:
        return None
    held_out = validation.pairs.padded(np.asarray(validation.indices), with_rare_ids=True)
    return ValidationBleu(model, [held_out], validation.pairs.spellings)


class GradualPruning(keras.callbacks.Callback):
    """Prunes more and more of the smallest weights during training.

        s(d) = s_f + (s_0 - s_f) (1 - d / 0.75)^3   while d < 0.75, then s_f

    d is the share of the training that is done, s_0 the share pruned at its beginning. The masks change in 100 steps,
    after an update. If a run reaches its end before s_f is pruned, because validation took too long or because it was
    resumed with an earlier end, one more round of a single update follows. This callback must come after `Budget`, and
    before `Checkpoints`.

    Args:
        masks: PruningMasks of the model.
        budget: Budget, for d.
        share: float. s_f.
        scheme: str. See `pruning_masks`.

    Reference:
        - Zhu and Gupta, 2017 (arXiv 1710.01878), equation 1
    """

    def __init__(self, masks: PruningMasks, budget: Budget, share: float, scheme: str) -> None:
        super().__init__()
        self._masks, self._budget, self._share, self._scheme = masks, budget, share, scheme
        self._step = -1  # a resumed run may be far ahead of its masks, if it was given an earlier end

    @property
    def is_late(self) -> bool:
        """Whether the training has reached its end and less than s_f is pruned."""
        return self._budget.done >= 1.0 and not self._masks.has_share(self._share, self._scheme)

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if (step := self._now()) != self._step:
            self._step = step
            sync_training_state(self.model)
            share = cubic_share(step / PRUNING_STEPS, self._masks.first_share, self._share)
            if not self._masks.has_share(share, self._scheme):
                self._masks.prune(share, self._scheme)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if self.is_late and not self._budget.signal:
            self.model.stop_training = False  # the budget ends the next round after its first update

    def _now(self) -> int:
        return min(PRUNING_STEPS, math.floor(PRUNING_STEPS * self._budget.done / PRUNING_END))


def cubic_share(done: float, first: float, last: float) -> float:
    """Computes the share to prune when a share `done` of the pruning is done, 0 to 1; see `GradualPruning`.

    Example:

    >>> [round(cubic_share(done, 0.0, 0.8), 3) for done in (0, 0.25, 0.5, 1)]
    [0.0, 0.463, 0.7, 0.8]
    """
    return last + (first - last) * (1 - done) ** 3


def _gradual_pruning(config: TrainingConfig, model: keras.Model, budget: Budget) -> GradualPruning | None:
    masks = PruningMasks.of(model)
    if not masks or not config.gradual_pruning:
        return None
    if masks.first_share > config.gradual_pruning + 0.005:  # more than rounding to whole weights
        warnings.warn(
            EncdecWarning(
                f"found a model with {masks.first_share:.1%} of its weights pruned, more than "
                f"{config.gradual_pruning:.1%}; it keeps them pruned, and no others are pruned."
            ),
            stacklevel=2,
        )
    return GradualPruning(masks, budget, config.gradual_pruning, config.pruning_scheme)


def _checkpoints(
    job: TrainingJob, progress: Progress, batches: Batches, validation: Batches | None, budget: Budget
) -> Checkpoints:
    config, monitor = job.config, PERPLEXITY
    if validation:
        monitor = HELD_OUT_BLEU if config.validation_bleu else HELD_OUT_PERPLEXITY
    return Checkpoints(
        job.folder,
        budget,
        batches.batch_size,
        monitor,
        progress.rounds,
        config.patience,
        config.patience_epochs and product_rounded_up(config.patience_epochs, batches.updates_per_epoch),
        config.checkpoint_minutes,
        job.saved,
    )


def _tensorboard(config: TrainingConfig, folder: pathlib.Path) -> list[keras.callbacks.Callback]:
    if not config.tensorboard or not all(map(importlib.util.find_spec, ("tensorflow", "tensorboard"))):
        return []
    return [_TensorBoard(folder / "logs", write_graph=False)]


class _TensorBoard(keras.callbacks.TensorBoard):
    """Leaves out metrics that validation does not measure, such as those of other tasks, but that Keras passes."""

    def on_test_end(self, logs: dict[str, float] | None = None) -> None:
        omitted = self.model.training_only_metrics
        super().on_test_end({name: value for name, value in (logs or {}).items() if name not in omitted})


class Restoration(keras.callbacks.Callback):
    """Restores the sums of the interrupted round, and the random generator, before the first update of a resumed run.

    The first round then has the measurements, and dropout the random numbers, of a run without the interruption. This
    callback must come after those that reset the sums at the beginning of a round. The generator is restored later than
    the sums: PyTorch draws from it when it begins to read the batches.

    Args:
        progress: Progress.
        replicas: Replicas that share the training.
    """

    def __init__(self, progress: Progress, replicas: Replicas) -> None:
        super().__init__()
        self._sums, self._generator, self._replicas = progress.sums, progress.generator, replicas

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        for variable, value in zip(round_sums(self.model), self._sums, strict=False):  # empty at the end of a round
            variable.assign(value)
        self._sums = ()

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if self._generator:
            set_generator_state(self._generator, self._replicas)
            self._generator = {}
