"""The end of training and the learning rate of each update, on each backend."""

import signal
import time

import keras
import numpy as np
import pytest
from recurrent_toys import SOURCE, TARGET, toy

from keras_encdec.backend.training_step import Compilation
from keras_encdec.runtime.workers import STOP_SIGNALS
from keras_encdec.trainers import TrainingConfig
from keras_encdec.trainers.budget import Budget, learning_rate_schedule
from keras_encdec.trainers.resumption import Progress


@pytest.mark.parametrize(
    "name, warmup, expected",
    [
        ("halving", 0, [1, 1, 1, 0.5, 0.25, 0.125, 0.0625]),
        ("linear", 4, [1 / 4, 6 / 7 / 2, 5 / 7 * 3 / 4, 4 / 7, 3 / 7, 2 / 7, 1 / 7]),
    ],
)
def test_the_learning_rate_is_set_for_each_update_within_a_round(name, warmup, expected):
    model = toy(layers=1, cell="rnn")
    # After clipping, the length of a step is proportional to the learning rate.
    model.compile(keras.optimizers.SGD(0.5, global_clipnorm=1e-3))
    settings = {"schedule": name, **({"halving_start": 1.5, "halving_every": 0.5} if name == "halving" else {})}
    config = TrainingConfig("recurrent", updates=7, learning_rate=0.5, warmup_updates=warmup, **settings)
    budget = Budget(config, updates_per_epoch=2, progress=Progress())
    data = {"source": np.tile(SOURCE, (10, 1)), "target": np.tile(TARGET, (10, 1))}
    lengths, before = [], model.get_weights()
    callbacks = [budget, Lengths(lengths, before)]
    model.fit(data, batch_size=len(SOURCE), epochs=9, shuffle=False, verbose=0, callbacks=callbacks)
    assert budget.updates_done == 7
    np.testing.assert_allclose(lengths, 0.5e-3 * np.array(expected), rtol=0.05)


def test_a_resumed_warm_up_continues_and_ends_at_the_full_learning_rate():
    model, rates = toy(layers=1, cell="rnn"), {}
    model.compile(keras.optimizers.SGD(0.5))

    def go_on(first, last):
        config = TrainingConfig("recurrent", updates=last, learning_rate=0.5, warmup_updates=1000)
        budget = Budget(config, updates_per_epoch=2, progress=Progress(updates=first))
        budget.set_model(model)
        budget.on_train_begin()
        for update in range(first + 1, last + 1):
            budget.on_train_batch_begin(update)
            rates[update] = float(keras.ops.convert_to_numpy(model.optimizer.learning_rate))
            budget.on_train_batch_end(update)
        budget.on_train_end()

    for first, last in ((0, 500), (500, 1002)):
        go_on(first, last)
    expected = {update: 0.5 * min(1, update / 1000) for update in rates}
    assert rates == pytest.approx(expected, rel=0.011)
    for update in (1, 501, 1000, 1002):
        assert rates[update] == pytest.approx(expected[update], rel=1e-6), update


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_each_stop_signal_ends_the_training_and_its_handler_is_restored(number, signals_obeyed, eager):
    model = toy(layers=1, cell="rnn")
    model.compile(keras.optimizers.SGD(0.5))
    budget = Budget(TrainingConfig("recurrent", epochs=9), updates_per_epoch=2, progress=Progress())
    data = {"source": np.tile(SOURCE, (10, 1)), "target": np.tile(TARGET, (10, 1))}

    def stop(batch, logs):
        signal.raise_signal(number)
        signal.raise_signal(number)  # as at a hang-up, which both the shell and the kernel signal

    before = signal.getsignal(number)
    callbacks = [budget, keras.callbacks.LambdaCallback(on_train_batch_begin=stop)]
    model.fit(data, batch_size=len(SOURCE), epochs=9, shuffle=False, verbose=0, callbacks=callbacks)
    assert (budget.signal, budget.updates_done) == (number, 1)
    assert signal.getsignal(number) == before


class Lengths(keras.callbacks.Callback):
    """Records how far the weights move in each update."""

    def __init__(self, lengths, before):
        super().__init__()
        self._lengths, self._before = lengths, before

    def on_train_batch_end(self, batch, logs=None):
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()
        now = self.model.get_weights()
        steps = [one - other for one, other in zip(now, self._before, strict=True)]
        self._lengths.append(np.sqrt(sum((step.astype(np.float64) ** 2).sum() for step in steps)))
        self._before = now


def test_halving_begins_after_a_number_of_epochs_and_repeats():
    factor = learning_rate_schedule("halving", halving_start=5, halving_every=0.5)
    epochs = [0, 4.99, 5, 5.49, 5.5, 5.99, 6, 7]
    assert [factor(0.3, epoch) for epoch in epochs] == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 2**-5]
    tenths = learning_rate_schedule("halving", halving_start=0.3, halving_every=0.1)
    assert [tenths(0, epoch) for epoch in (0.3, 0.4, 0.5, 0.6)] == [1 / 2, 1 / 4, 1 / 8, 1 / 16]


@pytest.mark.parametrize("name, expected", [("constant", [1, 1, 1]), ("linear", [1, 0.5, 0]), ("cosine", [1, 0.5, 0])])
def test_other_schedules_follow_the_share_of_the_training_that_is_done(name, expected):
    assert [learning_rate_schedule(name)(done, 99) for done in (0, 0.5, 1)] == pytest.approx(expected)


def test_compiling_does_not_count(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    compilation = Compilation(seconds=3)  # before the training began
    model = toy(layers=1, cell="rnn")
    model.compile(keras.optimizers.SGD(0.5))
    model.stop_training = False
    budget = Budget(TrainingConfig("recurrent", minutes=1), 2, Progress(), compilation)
    budget.set_model(model)
    budget.on_train_begin()
    assert (budget.seconds, budget.done) == (0, 0)
    now[0] += 250
    compilation.seconds += 240
    budget.on_train_batch_end(0)
    assert (budget.seconds, budget.done, budget.model.stop_training) == (10, 1 / 6, False)
    now[0] += 50
    budget.on_train_batch_end(1)
    assert budget.model.stop_training
    budget.on_train_end()
