"""When training ends, and the step size on the way there."""

import signal
import time

import keras

# Less is not worth the setting of it.
LEAST_CHANGE = 0.01


class Budget(keras.callbacks.Callback):
    """Stops training after so many updates or seconds, or at a signal, and lowers the step size until then.

    A stopped round is still validated and kept. The first interrupt or termination signal ends the
    training so; a second one ends the process.

    Args:
        learning_rate: float. Step size at the start.
        schedule: callable of the share of the training and of the epochs that are done, to what the step size
            is multiplied by.
        updates_per_epoch: int.
        updates: int. Updates in all, those before a resumption included. Defaults to `None`: no limit.
        seconds: float. Seconds in all, likewise. Defaults to `None`: no limit.
        first_update: int. Updates made before. Defaults to `0`.
        first_seconds: float. Seconds spent before. Defaults to `0`.
    """

    def __init__(
        self, learning_rate, schedule, updates_per_epoch, updates=None, seconds=None, first_update=0, first_seconds=0.0
    ):
        super().__init__()
        self.updates_done, self.signal = first_update, None
        self._limits = updates, seconds
        self._learning_rate, self._schedule, self._epoch = learning_rate, schedule, updates_per_epoch
        self._before, self._start, self._handlers = first_seconds, None, {}
        self._share = None  # of the step size at the start, as the optimizer has it

    @property
    def seconds(self):
        """Seconds of training, those before a resumption included."""
        return self._before + (0.0 if self._start is None else time.monotonic() - self._start)

    @property
    def done(self):
        """Share of the training that is done, 0 to 1; 0 without a limit."""
        spent = zip((self.updates_done, self.seconds), self._limits, strict=True)
        return min(1.0, max((now / limit for now, limit in spent if limit), default=0.0))

    def on_train_begin(self, logs=None):
        self._start = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._stop)
        self._share = None
        self._adjust()  # a training that goes on may have been given another step size

    def on_train_end(self, logs=None):
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def on_train_batch_begin(self, batch, logs=None):
        self._adjust()

    def on_train_batch_end(self, batch, logs=None):
        self.updates_done += 1
        self._stop_when_spent()

    def on_epoch_end(self, epoch, logs=None):
        self._stop_when_spent()  # validation takes time too

    def _stop_when_spent(self):
        if self.done >= 1.0 or self.signal:
            self.model.stop_training = True

    def _adjust(self):
        share = self._schedule(self.done, self.updates_done / self._epoch)
        if self._share is None or abs(share - self._share) > LEAST_CHANGE * self._share:
            if keras.backend.backend() == "jax":
                self.model.jax_state_sync()  # within a round the optimizer's variables are out of reach without
            self.model.optimizer.learning_rate = self._learning_rate * share
            self._share = share

    def _stop(self, number, frame):
        self.signal = number
        signal.signal(number, self._handlers[number])
