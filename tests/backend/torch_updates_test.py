import keras
import numpy as np
import pytest

from keras_encdec.backend import torch_updates
from keras_encdec.backend.torch_updates import update_in_few_passes

SHAPES = (3, 5), (4,), (1, 2, 2)


def updated(optimizer, numbers=(0, 1, 2), updates=5):
    """The variables, and what the optimizer keeps, after some updates of those variables that are named."""
    random = np.random.default_rng(0)
    variables = [keras.Variable(random.normal(size=shape), dtype="float32") for shape in SHAPES]
    variables[0].value.data = variables[0].value.data.T.contiguous().T  # in memory, column by column
    optimizer.build(variables)
    for _ in range(updates):
        gradients = [keras.ops.convert_to_tensor(random.normal(size=shape).astype("float32")) for shape in SHAPES]
        optimizer.apply([gradients[number] for number in numbers], [variables[number] for number in numbers])
    return [keras.ops.convert_to_numpy(variable) for variable in [*variables, *optimizer.variables]]


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's updates")
@pytest.mark.parametrize("block", [1, 4, 2**18])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.Adadelta(0.7, rho=0.9, epsilon=1e-3),
        lambda: keras.optimizers.Adam(0.1, beta_1=0.8, beta_2=0.9, epsilon=1e-3, global_clipnorm=2.0),
        lambda: keras.optimizers.Adam(0.1),
        lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5), weight_decay=0.1),
        lambda: keras.optimizers.Adadelta(0.7, global_clipnorm=2.0),
        lambda: keras.optimizers.Adadelta(0.7, global_clipnorm=100.0),
        lambda: keras.optimizers.Adadelta(0.7, clipnorm=1.0),
        lambda: keras.optimizers.SGD(0.1, global_clipnorm=2.0),
        lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5), clipvalue=0.5),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adadelta(1.0), initial_scale=4.0),
    ],
    ids=[
        *("Adadelta", "Adam", "defaults", "schedule", "clipped norm", "norm below the bound", "clipped norms"),
        *("SGD", "clipped values", "scaled loss"),
    ],
)
@pytest.mark.parametrize("numbers", [(0, 1, 2), (2, 0)])
def test_updates_are_those_of_keras(optimizer, block, numbers, monkeypatch):
    monkeypatch.setattr(torch_updates, "BLOCK", block)
    ours = optimizer()
    update_in_few_passes(ours)
    assert "_parallel_update_step" in vars(getattr(ours, "inner_optimizer", ours))
    for found, expected in zip(updated(ours, numbers), updated(optimizer(), numbers), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's updates")
def test_updates_of_another_kind_stay_those_of_keras():
    class OwnAdam(type(keras.optimizers.Adam())):
        def _parallel_update_step(self, gradients, variables, learning_rate):
            """Changes nothing."""

    others = keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.RMSprop(0.1), OwnAdam(0.1)
    for optimizer in (*others, keras.optimizers.Adam(0.1, amsgrad=True)):
        update_in_few_passes(optimizer)
        assert "_parallel_update_step" not in vars(optimizer)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's updates")
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_gradients_that_are_not_finite_become_nan_as_in_keras(wrong):
    for change in (update_in_few_passes, lambda optimizer: None):
        optimizer, weights = keras.optimizers.SGD(0.1, global_clipnorm=1.0), keras.Variable(np.ones(3), dtype="float32")
        change(optimizer)
        optimizer.build([weights])
        optimizer.apply([keras.ops.convert_to_tensor([1.0, wrong, 1.0])], [weights])
        assert np.isnan(keras.ops.convert_to_numpy(weights)).all()
