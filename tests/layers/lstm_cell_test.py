import keras
import numpy as np
from layer_checks import numpy

from keras_encdec.layers import LSTMCell, run_recurrence


def test_it_is_keras_cell_with_the_gates_in_the_order_of_the_equations():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(3, 6, 5)).astype("float32")
    mask = np.arange(6)[None] < np.array([[6], [3], [5]])
    cell, other = LSTMCell(4), keras.layers.LSTM(4)
    other.build((None, None, 5))
    cell.build((None, 5))
    weights = [random.normal(0, 0.5, weight.shape) for weight in cell.weights]
    cell.set_weights(weights)
    # Keras's gates are i, f, g, o.
    other.set_weights([np.concatenate([np.split(w, 4, axis=-1)[i] for i in (0, 1, 3, 2)], axis=-1) for w in weights])
    np.testing.assert_allclose(numpy(keras.layers.RNN(cell)(inputs)), numpy(other(inputs)), atol=1e-6)
    masked = numpy(other(inputs, mask=mask))
    np.testing.assert_allclose(numpy(keras.layers.RNN(cell)(inputs, mask=mask)), masked, atol=1e-6)
    states = run_recurrence(cell.step, cell.project_inputs(inputs), cell.initial_state(3), cell.parameters(), mask)
    np.testing.assert_allclose(numpy(states["hidden"][:, -1]), masked, atol=1e-6)


def test_config_round_trips_and_forget_gates_are_open_at_first():
    cell = LSTMCell(3, kernel_initializer="ones")
    again = LSTMCell.from_config(cell.get_config())
    assert again.get_config() == cell.get_config()
    again.build((None, 2))
    np.testing.assert_array_equal(numpy(again.bias), [0] * 3 + [1] * 3 + [0] * 6)
    np.testing.assert_array_equal(numpy(again.recurrent_kernel), np.ones((3, 12)))
