import keras
import numpy as np
import pytest

from keras_encdec.backend import torch_updates
from keras_encdec.backend.torch_updates import update_by_blocks

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
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adadelta(1.0), initial_scale=4.0),
    ],
    ids=["Adadelta", "Adam", "defaults", "schedule", "scaled loss"],
)
@pytest.mark.parametrize("numbers", [(0, 1, 2), (2, 0)])
def test_updates_are_those_of_keras(optimizer, block, numbers, monkeypatch):
    monkeypatch.setattr(torch_updates, "BLOCK", block)
    ours = optimizer()
    update_by_blocks(ours)
    assert "_parallel_update_step" in vars(getattr(ours, "inner_optimizer", ours))
    for found, expected in zip(updated(ours, numbers), updated(optimizer(), numbers), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's updates")
def test_updates_of_another_kind_stay_those_of_keras():
    class OwnAdam(type(keras.optimizers.Adam())):
        def _parallel_update_step(self, gradients, variables, learning_rate):
            """Changes nothing."""

    for optimizer in (keras.optimizers.SGD(0.1), keras.optimizers.Adam(0.1, amsgrad=True), OwnAdam(0.1)):
        update_by_blocks(optimizer)
        assert "_parallel_update_step" not in vars(optimizer)
