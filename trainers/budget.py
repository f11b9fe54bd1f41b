"""When training ends, and the step size on the way there."""

import math
import signal
import time
from collections.abc import Callable

import keras

from keras_encdec.backend.training_step import sync_training_state
from keras_encdec.runtime.stop_signals import SAME_SIGNAL, handle_stop_signals, restore_handlers

# A smaller relative change of the step size is not worth setting it.
LEAST_CHANGE = 0.01


class Budget(keras.callbacks.Callback):
    """Stops training after a number of updates or seconds, or at a signal, and sets the step size until then.

    Update n, counted from 1, has the step size at full height times what the schedule says; in a warm-up of N updates
    times n / N, too.

    A stopped round is still validated and kept. The first interrupt, termination, hang-up or quit signal ends the
    training so; another one, more than a second later, does what it would without a training. Outside the main
    thread, which alone gets signals, they are left alone.

    Args:
        learning_rate: float. Step size at full height.
        schedule: callable of the share of the training and of the epochs that are done, to what the step size
            is multiplied by.
        updates_per_epoch: int.
        updates: int. Updates in all, those before a resumption included. Defaults to `None`: no limit.
        seconds: float. Seconds in all, those before a resumption included. Defaults to `None`: no limit.
        first_update: int. Updates made before. Defaults to `0`.
        first_seconds: float. Seconds spent before. Defaults to `0`.
        warmup_updates: int. Updates of the warm-up. Defaults to `0`: none.
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
        warmup_updates: int = 0,
    ) -> None:
        super().__init__()
        self.updates_done, self.signal, self._signalled = first_update, None, 0.0
        self._limits = updates, seconds
        self._learning_rate, self._schedule, self._epoch = learning_rate, schedule, updates_per_epoch
        self._warmup = warmup_updates
        self._before, self._start, self._handlers = first_seconds, None, {}
        self._share = None  # of the step size at full height, as the optimizer has it

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
        self._handlers = handle_stop_signals(self._stop)
        self._share = None
        self._adjust()  # a training that goes on may have been given another step size

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        restore_handlers(self._handlers)

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
        share, update = self._schedule(self.done, self.updates_done / self._epoch), self.updates_done + 1
        if update < self._warmup:
            share *= update / self._warmup
        changed = self._share is None or abs(share - self._share) > LEAST_CHANGE * self._share
        if changed or update == self._warmup:  # which would end at a little less than full height for good
            sync_training_state(self.model)  # within a round the optimizer's variables are out of reach without
            self.model.optimizer.learning_rate = self._learning_rate * share
            self._share = share

    def _stop(self, number, frame):
        now = time.monotonic()
        if self.signal is None:
            self.signal, self._signalled = number, now
        elif now - self._signalled > SAME_SIGNAL:
            signal.signal(number, self._handlers[number])
            signal.raise_signal(number)


def learning_rate_schedule(
    name: str, halving_start: float = 5.0, halving_every: float = 1.0
) -> Callable[[float, float], float]:
    """What the step size is multiplied by.

        constant   1
        linear     1 - d
        cosine     (1 + cos(pi d)) / 2
        halving    1 before epoch e0, then 2^-(1 + floor((e - e0) / n))

    Args:
        name: str, one of these.
        halving_start: float. Epochs before the first halving, e0. Defaults to `5`.
        halving_every: float. Epochs from one halving to the next, n. Defaults to `1`.

    Returns:
        callable of d, the share of the training that is done, and e, the epochs that are done.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), and Luong et al., 2015 (arXiv 1508.04025),
          section 4.1: halving
    """
    return {
        "constant": lambda done, epochs: 1.0,
        "linear": lambda done, epochs: 1.0 - done,
        "cosine": lambda done, epochs: 0.5 * (1.0 + math.cos(math.pi * done)),
        "halving": lambda done, epochs: 0.5 ** max(0, 1 + math.floor((epochs - halving_start) / halving_every)),
    }[name]
