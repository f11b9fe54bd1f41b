"""Ends training at its limits or at a signal, and sets the learning rate of each update."""

import math
import signal
import time
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

import keras

from keras_encdec.backend.replicas import Compilation, Replicas
from keras_encdec.backend.training_step import sync_training_state
from keras_encdec.configuration import product_rounded_up
from keras_encdec.runtime.workers import SAME_SIGNAL, handle_stop_signals, restore_handlers
from keras_encdec.trainers.training_config import TrainingConfig

if TYPE_CHECKING:
    from keras_encdec.trainers.resumption import Progress

# The optimizer's learning rate is set only when it has changed by this share, because setting it takes time.
MIN_CHANGE = 0.01
# Several processes agree on the time and on signals this often, and after 1,000 updates at the latest.
AGREEMENT_SECONDS, AGREEMENT_UPDATES = 1.0, 1000


class Budget(keras.callbacks.Callback):
    """Stops training after a number of updates or seconds, or at a signal, and sets the learning rate until then.

    The learning rate of update n, counted from 1, is the full learning rate times the schedule's factor. In a warm-up
    of N updates, it is also multiplied by n / N.

    A round that is cut short by a limit is still validated and saved. The first interrupt, termination, hang-up or quit
    signal ends the training after the current update, see `Checkpoints`; a second signal, more than a second later, has
    its usual effect. Only the main thread receives signals; in other threads the callback leaves the signal handlers
    unchanged. If several processes share a run, the time is that of the first process, and a signal to any of them
    stops all of them after the same update, about a second later.

    Args:
        config: TrainingConfig, with the limits, the length of a round, and the settings of the learning rate.
        updates_per_epoch: int. Number of updates in a pass over the pairs.
        progress: Progress so far, of the run that is resumed.
        compilation: Compilation, whose seconds do not count. Defaults to `None`: all seconds count.
        replicas: Replicas that share the run. Defaults to one device.

    Attributes:
        learning_rate: float. The full learning rate.
        factor: float. The factor of the full learning rate that was last set in the optimizer; `None` before.
        updates: int. Maximum number of updates, including those before a resumption; `None` without a limit.
        updates_per_epoch: int. Number of updates in a pass over the pairs.
        updates_done: int. Number of updates so far, including those before a resumption.
        replicas: Replicas.
        signal: int. Number of the signal that stopped the training; `None` without one.
    """

    def __init__(
        self,
        config: TrainingConfig,
        updates_per_epoch: int,
        progress: "Progress",
        compilation: Compilation | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        super().__init__()
        self.updates_done = self._first_update = progress.updates
        self._signalled = 0.0
        self.signal: int | None = None
        self._arrived: int | None = None
        self.replicas = replicas or Replicas()
        # The seconds since the beginning and those of compiling on which the processes have agreed, and the number of
        # updates after which they agree again.
        self._agreed, self._agree_at = (0.0, 0.0), 0
        epoch_limit = int(product_rounded_up(config.epochs, updates_per_epoch)) if config.epochs else None
        self.updates = min(filter(None, (config.updates, epoch_limit)), default=None)
        self._limits = self.updates, config.minutes and 60 * config.minutes
        self._schedule = learning_rate_schedule(config.schedule, config.halving_start, config.halving_every)
        self.learning_rate, self._warmup = config.learning_rate, config.warmup_updates
        self.updates_per_epoch = updates_per_epoch
        self._seconds_before, self._handlers = progress.seconds, {}
        self._compilation = compilation or Compilation()
        self._start: float | None = None
        self._compiled_before = 0.0  # seconds of compiling before the clock starts
        has_same_rate = progress.learning_rate == config.learning_rate
        self.factor = self._first_factor = progress.factor if has_same_rate else None
        self._round_updates, self._round_updates_done = config.round_updates, progress.round_updates
        # Keras counts the updates of a round from the resumption, so this callback must end the first round earlier.
        self._ends_round = self._round_updates_done > 0

    @property
    def clock(self) -> float:
        """Seconds since the training began or was resumed, including those of compiling; the same in all processes."""
        return self._times[0]

    @property
    def seconds(self) -> float:
        """Seconds of training so far, including those before a resumption, and without those of compiling."""
        since, compiling = self._times
        return self._seconds_before + since - compiling

    @property
    def _times(self) -> tuple[float, float]:
        return self._agreed if self._start is None or self.replicas.processes > 1 else self._own_times()

    def _own_times(self) -> tuple[float, float]:
        return time.monotonic() - (self._start or 0.0), self._compilation.seconds - self._compiled_before

    def _agree(self) -> None:
        """Agrees with the other processes on the time, on signals, and on when to agree again."""
        if self.replicas.processes == 1:
            return
        since, compiling = self._own_times()
        updates_per_second = (self.updates_done - self._first_update) / max(since - compiling, 1e-9)
        updates = AGREEMENT_SECONDS * updates_per_second
        updates = min(max(1, round(updates)), AGREEMENT_UPDATES)
        (since, compiling, updates), arrived = self.replicas.agree([since, compiling, updates], self._arrived or 0)
        self._agreed, self._agree_at = (since, compiling), self.updates_done + int(updates)
        self.signal = arrived or None

    @property
    def done(self) -> float:
        """Share of the training that is done, 0 to 1; 0 without a limit."""
        spent = zip((self.updates_done, self.seconds), self._limits, strict=True)
        return min(1.0, max((now / limit for now, limit in spent if limit), default=0.0))

    @property
    def round_is_complete(self) -> bool:
        """Whether the current round has all its updates."""
        return self._round_updates_done >= self._round_updates

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._start, self._compiled_before = time.monotonic(), self._compilation.seconds
        self._handlers = handle_stop_signals(self._stop)
        self._agree()
        # A newly computed factor would differ slightly from that of a run without the interruption.
        self.factor = self._first_factor
        self._adjust()  # a resumed run may have been given another learning rate

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        restore_handlers(self._handlers)

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._adjust()

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self.updates_done += 1
        self._round_updates_done += 1
        if self.updates_done >= self._agree_at:
            self._agree()
        self._stop_when_spent()
        if self.model.stop_training:
            self._ends_round = False  # the training ends, not only the round
        elif self._ends_round and self.round_is_complete:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._agree()
        if logs and self.replicas.processes > 1:  # the processes may have rounded BLEU differently
            logs.update(zip(logs, self.replicas.agree(list(logs.values()))[0], strict=True))
        if self._ends_round:
            self.model.stop_training = self._ends_round = False
        self._round_updates_done = 0
        self._stop_when_spent()  # validation takes time too

    def _stop_when_spent(self) -> None:
        if self.done >= 1.0 or self.signal:
            self.model.stop_training = True

    def _adjust(self) -> None:
        """Sets the learning rate of the next update."""
        factor, update = self._schedule(self.done, self.updates_done / self.updates_per_epoch), self.updates_done + 1
        if update < self._warmup:
            factor *= update / self._warmup
        changed = self.factor is None or abs(factor - self.factor) > MIN_CHANGE * self.factor
        # A change at the end of the warm-up is always set: with a constant schedule, no later change would correct it.
        if changed or update == self._warmup:
            sync_training_state(self.model)  # under JAX the optimizer's variables are out of date within a round
            self.model.optimizer.learning_rate = self.learning_rate * factor
            self.factor = factor

    def _stop(self, number: int, frame: types.FrameType | None) -> None:
        """Handles a stop signal."""
        now = time.monotonic()
        if self._arrived is None:
            self._arrived, self._signalled = number, now
            if self.replicas.processes == 1:
                self.signal = number
        elif now - self._signalled > SAME_SIGNAL:
            signal.signal(number, self._handlers[number])
            signal.raise_signal(number)


def learning_rate_schedule(
    name: str, halving_start: float = 5.0, halving_every: float = 1.0
) -> Callable[[float, float], float]:
    """Makes the schedule of the learning rate: a function that returns the factor of the full learning rate.

        constant   1
        linear     1 - d
        cosine     (1 + cos(pi d)) / 2
        halving    1 before epoch e0, then 2^-(1 + floor((e - e0) / n))

    Args:
        name: str. A name in this table.
        halving_start: float. Number of epochs before the first halving, e0. Defaults to `5`.
        halving_every: float. Number of epochs from one halving to the next, n. Defaults to `1`.

    Returns:
        function of d, the share of the training that is done, and e, the number of epochs that are done.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), and Luong et al., 2015 (arXiv 1508.04025),
          section 4.1: halving
    """

    def halvings(epochs: float) -> int:
        # (0.6 - 0.3) / 0.1 is a little less than 3.
        return max(0, 1 + math.floor((epochs - halving_start) / halving_every + 1e-9))

    return {
        "constant": lambda done, epochs: 1.0,
        "linear": lambda done, epochs: 1.0 - done,
        "cosine": lambda done, epochs: 0.5 * (1.0 + math.cos(math.pi * done)),
        "halving": lambda done, epochs: 0.5 ** halvings(epochs),
    }[name]
