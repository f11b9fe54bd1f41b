"""When training ends, and the step size on the way there."""

import signal
import threading
import time
from collections.abc import Callable

import keras

from keras_encdec.backend.training_step import sync_training_state

# A smaller relative change of the step size is not worth setting it.
LEAST_CHANGE = 0.01


class Budget(keras.callbacks.Callback):
    """Stops training after a number of updates or seconds, or at a signal, and lowers the step size until then.

    A stopped round is still validated and kept. The first interrupt or termination signal ends the
    training so; a second one does what it would without a training. Outside the main thread, which alone gets
    signals, they are left alone.

    Args:
        learning_rate: float. Step size at the start.
        schedule: callable of the share of the training and of the epochs that are done, to what the step size
            is multiplied by.
        updates_per_epoch: int.
        updates: int. Updates in all, those before a resumption included. Defaults to `None`: no limit.
        seconds: float. Seconds in all, those before a resumption included. Defaults to `None`: no limit.
        first_update: int. Updates made before. Defaults to `0`.
        first_seconds: float. Seconds spent before. Defaults to `0`.
    """

    def __init__(
        self,
        learning_rate: float,
        schedule: Callable[[float, float], float],
        updates_per_epoch: int,
        updates: int | None = None,
        seconds: float | None = None,
        first_update: int = 0,
        first_seconds: float = 0.0,
    ) -> None:
        super().__init__()
        self.updates_done, self.signal = first_update, None
        self._limits = updates, seconds
        self._learning_rate, self._schedule, self._epoch = learning_rate, schedule, updates_per_epoch
        self._before, self._start, self._handlers = first_seconds, None, {}
        self._share = None  # of the step size at the start, as the optimizer has it

    @property
    def seconds(self) -> float:
        """Seconds of training, those before a resumption included."""
        return self._before + (0.0 if self._start is None else time.monotonic() - self._start)

    @property
    def done(self) -> float:
        """Share of the training that is done, 0 to 1; 0 without a limit."""
        spent = zip((self.updates_done, self.seconds), self._limits, strict=True)
        return min(1.0, max((now / limit for now, limit in spent if limit), default=0.0))

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._start = time.monotonic()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._stop)
        self._share = None
        self._adjust()  # a training that goes on may have been given another step size

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._adjust()

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self.updates_done += 1
        self._stop_when_spent()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._stop_when_spent()  # validation takes time too

    def _stop_when_spent(self):
        if self.done >= 1.0 or self.signal:
            self.model.stop_training = True

    def _adjust(self):
        share = self._schedule(self.done, self.updates_done / self._epoch)
        if self._share is None or abs(share - self._share) > LEAST_CHANGE * self._share:
            sync_training_state(self.model)  # within a round the optimizer's variables are out of reach without
            self.model.optimizer.learning_rate = self._learning_rate * share
            self._share = share

    def _stop(self, number, frame):
        self.signal = number
        signal.signal(number, self._handlers[number])
