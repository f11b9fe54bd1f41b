import re

import keras
import numpy as np
import pytest
from layer_checks import check_layer, numpy
from oracle import sigmoid

from keras_encdec.backend.loops import UNROLLED_STEPS
from keras_encdec.layers import GRU, GRUCell


def inputs_of(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def stirred(layer, seed=3):
    """Random weights, biases included, so that no term is zero."""
    rng = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(0, 0.5, variable.shape))
    return layer


def numpy_gru(cell, inputs, mask=None):
    """h after every step in float64, from the equations: (batch, time, units)."""
    W, U_gates, U, b = (np.asarray(numpy(w), "float64") for w in cell.trainable_variables)
    n = cell.units
    h, states = np.zeros((len(inputs), n)), []
    for t in range(inputs.shape[1]):
        x = inputs[:, t].astype("float64")
        r = sigmoid(x @ W[:, :n] + h @ U_gates[:, :n] + b[:n])
        z = sigmoid(x @ W[:, n : 2 * n] + h @ U_gates[:, n:] + b[n : 2 * n])
        recurrent = r * (h @ U) if cell.reset_after else (r * h) @ U
        new = z * h + (1 - z) * np.tanh(x @ W[:, 2 * n :] + b[2 * n :] + recurrent)
        h = new if mask is None else np.where(mask[:, t, None], new, h)
        states.append(h)
    return np.stack(states, 1)


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("steps", [5, UNROLLED_STEPS + 3])  # unrolled, and as a loop
def test_follows_the_equations(reset_after, steps):
    inputs = inputs_of(3, steps, 4)
    layer = GRU(6, reset_after=reset_after, return_sequences=True)
    layer.build(inputs.shape)
    stirred(layer)
    np.testing.assert_allclose(numpy(layer(inputs)), numpy_gru(layer.cell, inputs), atol=1e-5)


@pytest.mark.parametrize("steps", [6, UNROLLED_STEPS + 2])
def test_a_masked_step_keeps_the_state(steps):
    inputs = inputs_of(2, steps, 4)
    mask = np.ones((2, steps), bool)
    mask[0, 2] = mask[1, -3:] = False
    layer = GRU(5, return_sequences=True)
    layer.build(inputs.shape)
    stirred(layer)
    states = numpy(layer(inputs, mask=mask))
    np.testing.assert_allclose(states, numpy_gru(layer.cell, inputs, mask), atol=1e-5)
    np.testing.assert_array_equal(states[0, 2], states[0, 1])


@pytest.mark.parametrize("reset_after", [False, True])
def test_the_cell_in_keras_rnn_computes_what_the_layer_does(reset_after):
    inputs = inputs_of(3, 7, 4)
    layer = GRU(6, reset_after=reset_after)
    layer.build(inputs.shape)
    stirred(layer)
    rnn = keras.layers.RNN(GRUCell.from_config(layer.cell.get_config()))
    rnn.build(inputs.shape)
    rnn.set_weights(layer.get_weights())
    mask = np.arange(7)[None] < np.array([[7], [3], [5]])
    np.testing.assert_allclose(numpy(layer(inputs)), numpy(rnn(inputs)), atol=1e-6)
    np.testing.assert_allclose(numpy(layer(inputs, mask=mask)), numpy(rnn(inputs, mask=mask)), atol=1e-6)


def test_several_initial_states_are_refused():
    inputs, state = np.ones((2, 3, 4)), np.ones((2, 5))
    with pytest.raises(ValueError, match="found a list of 2 initial states, expected one state"):
        GRU(5)(inputs, initial_state=[state, state])


@pytest.mark.parametrize("shape", [(1, 5), (3, 5), (2, 4), (2, 1), (5,), (2, 3, 5)])
def test_an_initial_state_of_another_shape_is_refused(shape):
    message = re.escape(f"found an initial state of shape {shape}, expected (2, 5)")
    with pytest.raises(ValueError, match=message):
        GRU(5)(np.ones((2, 3, 4), "float32"), initial_state=np.ones(shape, "float32"))


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_an_initial_state_of_integers_is_read_as_floats(dtype):
    layer, inputs, state = GRU(5), inputs_of(2, 3, 4), np.eye(2, 5)
    expected = numpy(layer(inputs, initial_state=state.astype("float32")))
    np.testing.assert_array_equal(numpy(layer(inputs, initial_state=state.astype(dtype))), expected)


@pytest.mark.parametrize("shape", [(2, 4), (2, 2), (3,), (2, 3, 1)])
def test_a_mask_of_another_shape_is_refused(shape):
    message = re.escape(f"found a mask of shape {shape}, expected (batch, 3)")
    with pytest.raises(ValueError, match=message):
        GRU(5)(inputs_of(2, 3, 4), mask=np.ones(shape, "bool"))


def test_the_mask_of_an_embedding_is_used():
    ids = np.array([[3, 4, 2, 0, 0], [5, 2, 0, 0, 0]])
    layer = GRU(4)
    model = keras.Sequential([keras.layers.Embedding(6, 3, mask_zero=True), layer])
    model.build(ids.shape)
    stirred(model)
    padded = numpy(model(ids))
    np.testing.assert_allclose(padded[:1], numpy(model(ids[:1, :3])), atol=1e-6)
    np.testing.assert_allclose(padded[1:], numpy(model(ids[1:, :2])), atol=1e-6)


@pytest.mark.parametrize("sequences, shape", [(False, (3, 6)), (True, (3, 5, 6))])
def test_behaves_as_a_keras_layer(sequences, shape, tmp_path):
    config = {"units": 6, "reset_after": sequences, "return_sequences": sequences}
    check_layer(GRU, config, [inputs_of(3, 5, 4)], shape, weights=4, folder=tmp_path)
