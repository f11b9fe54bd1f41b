import keras
import numpy as np
import pytest
from keras import ops
from layer_checks import numpy

from keras_encdec.architectures.configurations import CELLS
from keras_encdec.backend.devices import on_cpu
from keras_encdec.layers import (
    LSTMCell,
    RecurrentCell,
    cell_names,
    recurrent_cell_class,
    register_cell,
    run_recurrence,
)
from keras_encdec.layers.recurrent_cell import RNNCell


def test_cells_are_known_by_name():
    assert {"gru", "lstm", "rnn"} <= set(cell_names())
    assert cell_names() == sorted(CELLS.choices), "a cell that the package lists and does not have, or the reverse"
    assert recurrent_cell_class("lstm") is LSTMCell
    with pytest.raises(ValueError, match="found cell='transformer', expected one of rnn, lstm, gru"):
        recurrent_cell_class("transformer")
    with pytest.raises(
        ValueError, match=r"cell 'lstm' registered already \(keras_encdec.layers.recurrent_cell.LSTMCell\)"
    ):
        register_cell("lstm")(RecurrentCell)


@pytest.mark.parametrize("units", [0, -1, 2.0, "4", None, True])
def test_units_are_checked_when_a_cell_is_made(units):
    for name in cell_names():
        with pytest.raises(ValueError, match=f"found units={units!r}, expected a whole number, 1 or more"):
            recurrent_cell_class(name)(units)
    assert recurrent_cell_class("gru")(np.int64(4)).get_config()["units"] == 4


@pytest.mark.parametrize("name", ["gru", "lstm", "rnn"])
def test_a_cell_has_the_interface_that_models_use(name):
    cell = recurrent_cell_class(name)(4)
    cell.build((None, 3))
    inputs = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    assert next(iter(cell.state_widths.items())) == ("hidden", 4)
    assert cell.project_inputs(inputs).shape == (2, 5, 4 * cell.gates)
    states = run_recurrence(cell.step, cell.project_inputs(inputs), cell.initial_state(2), cell.parameters())
    assert {key: tuple(value.shape) for key, value in states.items()} == {
        key: (2, 5, width) for key, width in cell.state_widths.items()
    }
    outputs = keras.layers.RNN(cell, return_sequences=True)(inputs)
    np.testing.assert_allclose(numpy(states["hidden"]), numpy(outputs), atol=1e-6)
    # Step by step, the last state is that of the whole sequence.
    state = cell.initial_state(2)
    for t in range(5):
        state = cell.step(cell.project_inputs(inputs[:, t]), state, cell.parameters())
    np.testing.assert_allclose(numpy(state["hidden"]), numpy(outputs)[:, -1], atol=1e-6)


@keras.saving.register_keras_serializable(package="test")
class Leaky(RecurrentCell):
    """A cell whose step is a plain function."""

    @staticmethod
    def step(inputs_t, state, parameters):
        (matrix,) = parameters
        new = 0.5 * state["hidden"] + 0.5 * ops.tanh(inputs_t + ops.matmul(state["hidden"], matrix))
        return {"hidden": new}


def test_a_step_may_be_a_plain_function():
    inputs = np.random.default_rng(1).normal(size=(2, 5, 3)).astype("float32")
    cell = Leaky(4)
    rnn = keras.layers.RNN(cell)
    expected = numpy(rnn(inputs))
    states = run_recurrence(cell.step, cell.project_inputs(inputs), cell.initial_state(2), cell.parameters())
    np.testing.assert_allclose(numpy(states["hidden"][:, -1]), expected, atol=1e-6)


def test_the_plain_cell_computes_what_that_of_keras_does():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(3, 6, 5)).astype("float32")
    cell, other = RNNCell(4), keras.layers.SimpleRNN(4)
    for layer, shape in ((cell, (None, 5)), (other, (None, None, 5))):
        layer.build(shape)
        layer.set_weights([np.random.default_rng(1).normal(0, 0.5, weight.shape) for weight in layer.weights])
    np.testing.assert_allclose(numpy(keras.layers.RNN(cell)(inputs)), numpy(other(inputs)), atol=1e-6)


def test_the_config_of_the_plain_cell_round_trips():
    cell = RNNCell(3, kernel_initializer="ones")
    again = RNNCell.from_config(cell.get_config())
    assert again.get_config() == cell.get_config()
    again.build((None, 2))
    np.testing.assert_array_equal(numpy(again.recurrent_kernel), np.ones((3, 3)))


def test_the_lstm_is_that_of_keras_with_the_gates_in_the_order_of_the_equations():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(3, 6, 5)).astype("float32")
    atol = 1e-6 if on_cpu() else 1e-3  # on a GPU, Keras's layer may run in cuDNN, which rounds factors to 10 bits
    mask = np.arange(6)[None] < np.array([[6], [3], [5]])
    cell, other = LSTMCell(4), keras.layers.LSTM(4)
    other.build((None, None, 5))
    cell.build((None, 5))
    weights = [random.normal(0, 0.5, weight.shape) for weight in cell.weights]
    cell.set_weights(weights)
    # Keras's gates are i, f, g, o.
    other.set_weights([np.concatenate([np.split(w, 4, axis=-1)[i] for i in (0, 1, 3, 2)], axis=-1) for w in weights])
    np.testing.assert_allclose(numpy(keras.layers.RNN(cell)(inputs)), numpy(other(inputs)), atol=atol)
    masked = numpy(other(inputs, mask=mask))
    np.testing.assert_allclose(numpy(keras.layers.RNN(cell)(inputs, mask=mask)), masked, atol=atol)
    states = run_recurrence(cell.step, cell.project_inputs(inputs), cell.initial_state(3), cell.parameters(), mask)
    np.testing.assert_allclose(numpy(states["hidden"][:, -1]), masked, atol=atol)


def test_the_config_of_the_lstm_round_trips_and_forget_gates_are_open_at_first():
    cell = LSTMCell(3, kernel_initializer="ones")
    again = LSTMCell.from_config(cell.get_config())
    assert again.get_config() == cell.get_config()
    again.build((None, 2))
    np.testing.assert_array_equal(numpy(again.bias), [0] * 3 + [1] * 3 + [0] * 6)
    np.testing.assert_array_equal(numpy(again.recurrent_kernel), np.ones((3, 12)))
