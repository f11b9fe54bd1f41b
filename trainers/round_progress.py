"""The rounds of a training: Keras's bar on a terminal, and the report of each."""

import time
from typing import Any

import keras

from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.checkpoints import Checkpoints
from keras_encdec.trainers.reporting import TrainingReporter
from keras_encdec.trainers.training_result import TrainingRound


class RoundProgress(keras.callbacks.ProgbarLogger):
    """Keras's progress bar under a line of its own, as a round is not an epoch.

    Args:
        budget: Budget.
        updates_per_epoch: int. Updates of a pass over the pairs.
    """

    def __init__(self, budget: Budget, updates_per_epoch: int) -> None:
        super().__init__()
        self._budget, self._updates_per_epoch = budget, updates_per_epoch

    def set_params(self, params: dict[str, Any]) -> None:
        super().set_params({**params, "verbose": 1, "epochs": 1})

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        budget = self._budget
        passes = budget.updates_done / self._updates_per_epoch
        share = f", {budget.done:.0%} of the training" if budget.done else ""
        print(
            f"Round {epoch + 1}: {budget.updates_done:,} updates, {passes:.2f} epochs, {budget.seconds:,.0f} s{share}"
        )
        super().on_epoch_begin(epoch, logs)


class RoundReports(keras.callbacks.Callback):
    """Hands every round, once it is kept, to the reporter.

    Args:
        reporter: TrainingReporter.
        budget: Budget.
        checkpoints: Checkpoints, which comes before this callback.
        updates_per_epoch: int. Updates of a pass over the pairs.
    """

    def __init__(
        self, reporter: TrainingReporter, budget: Budget, checkpoints: Checkpoints, updates_per_epoch: int
    ) -> None:
        super().__init__()
        self._reporter, self._budget, self._checkpoints = reporter, budget, checkpoints
        self._updates_per_epoch = updates_per_epoch

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._done, self._start = self._budget.done, time.monotonic()
        self._round_start, self._pairs = self._start, 0
        if self._checkpoints.rounds:
            self._pairs = self._checkpoints.rounds[-1]["pairs"]

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        now, training_round = time.monotonic(), TrainingRound.from_dict(self._checkpoints.rounds[-1])
        done, left = self._budget.done, None
        if done > self._done:
            left = (now - self._start) / (done - self._done) * (1 - done)
        rate = (training_round.pairs - self._pairs) / max(now - self._round_start, 1e-9)
        epochs = training_round.updates / self._updates_per_epoch
        self._reporter.round_ended(len(self._checkpoints.rounds), training_round, epochs, rate, left)
        self._round_start, self._pairs = now, training_round.pairs
