"""Keras callbacks that pass the progress of a training to its record and to its reporter."""

import threading
import time
from typing import Self

import keras

from keras_encdec.backend.replicas import Compilation
from keras_encdec.runtime.progress_state import ProgressRecord
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.checkpoints import Checkpoints
from keras_encdec.trainers.reporting import TrainingReporter, TrainingRound


class ProgressUpdates(keras.callbacks.Callback):
    """Keeps the record of a training up to date.

    Args:
        record: ProgressRecord.
        budget: Budget, which must come before this one in the list of callbacks.
    """

    def __init__(self, record: ProgressRecord, budget: Budget) -> None:
        super().__init__()
        self._record, self._budget = record, budget

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._record.begin("updates", self._budget.updates_done, self._budget.done)

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._record.update(self._budget.updates_done, share=self._budget.done or None)

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        if self._budget.signal is not None:
            self._record.fail(f"stopped by signal {self._budget.signal}; --resume continues the training")


class UpdateReports(keras.callbacks.Callback):
    """Passes the progress to the reporter until the first round has ended, also while a step is being compiled.

    It is a context manager: a thread of its `with` block reports what takes long.

    Args:
        reporter: TrainingReporter.
        budget: Budget, which must come before this one in the list of callbacks.
        batch_size: int. Number of pairs per update.
        compilation: Compilation, whose shapes the reporter announces. An update that compiles is reported as such.
        pause: float. Seconds between reports. Defaults to `25`, so that there is less than half a minute between lines.
    """

    def __init__(
        self, reporter: TrainingReporter, budget: Budget, batch_size: int, compilation: Compilation, pause: float = 25.0
    ) -> None:
        super().__init__()
        self._reporter, self._budget, self._batch_size, self._pause = reporter, budget, batch_size, pause
        self._compilation, self._shapes = compilation, compilation.shapes
        self._seconds, self._updates = 0.0, 0
        self._said = self._began = time.monotonic()
        self._task = ""  # while it is empty, nothing is reported
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(max(0.1, self._pause / 25)):
            now = time.monotonic()
            if self._task and self._compilation.shapes > self._shapes:
                self._shapes = self._compilation.shapes
                self._task, self._said, self._began = "Compiling", now, now
            # An update that has only begun reports itself at its end.
            if self._task and now - self._said >= self._pause and now - self._began >= self._pause / 6:
                self._said = now
                self._reporter.waiting(self._task, now - self._began)

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._seconds, self._updates = self._budget.seconds, self._budget.updates_done
        self._said = time.monotonic()
        self._begin_update()

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if not self._task:
            return
        if time.monotonic() - self._said >= self._pause:
            seconds, updates = self._budget.seconds, self._budget.updates_done
            rate = (updates - self._updates) * self._batch_size / max(seconds - self._seconds, 1e-9)
            self._reporter.updated(updates, rate, float((logs or {})["perplexity"]))
            self._said, self._seconds, self._updates = time.monotonic(), seconds, updates
        self._begin_update()

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        if self._task:
            self._task, self._began = "The validation", time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._task = ""

    def _begin_update(self) -> None:
        self._shapes = self._compilation.shapes
        self._task, self._began = f"Update {self._budget.updates_done + 1:,}", time.monotonic()


class RoundReports(keras.callbacks.Callback):
    """Passes every round to the reporter after it is saved. Its rate and the time left do not count compiling.

    Args:
        reporter: TrainingReporter.
        budget: Budget.
        checkpoints: Checkpoints, which must come before this one in the list of callbacks.
        updates_per_epoch: int. Number of updates in a pass over the pairs.
    """

    def __init__(
        self, reporter: TrainingReporter, budget: Budget, checkpoints: Checkpoints, updates_per_epoch: int
    ) -> None:
        super().__init__()
        self._reporter, self._budget, self._checkpoints = reporter, budget, checkpoints
        self._updates_per_epoch = updates_per_epoch

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._done, self._start = self._budget.done, self._budget.seconds
        self._round_start, self._updates = self._start, self._budget.updates_done

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        now, training_round = self._budget.seconds, TrainingRound.from_dict(self._checkpoints.rounds[-1])
        done, left = self._budget.done, None
        if done > self._done:
            left = (now - self._start) / (done - self._done) * (1 - done)
        pairs = (training_round.updates - self._updates) * training_round.pairs / training_round.updates
        rate = pairs / max(now - self._round_start, 1e-9)
        epochs = training_round.updates / self._updates_per_epoch
        self._reporter.round_ended(len(self._checkpoints.rounds), training_round, epochs, rate, left)
        self._round_start, self._updates = now, training_round.updates
