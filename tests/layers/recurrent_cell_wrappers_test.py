"""The layers inside Keras's wrappers."""

import keras
import numpy as np
import pytest
from gradients import in_one_program
from layer_checks import check_saved_in_a_new_process, numpy

from keras_encdec.layers import GRU, GRUCell, LSTMCell, Maxout, RNNCell

rng = np.random.default_rng(0)
INPUTS = rng.normal(size=(3, 6, 4)).astype("float32")
MASK = np.arange(6)[None] < np.array([[6], [3], [5]])


def trained_and_saved(layer, folder, width):
    """Takes a model of the layer through training, saving, and loading in another process."""
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    symbolic = keras.Input((6, 4))
    model = keras.Model(symbolic, layer(symbolic))
    assert model.output_shape[-1] == width
    model.compile("sgd", "mse")
    before = [numpy(weight) for weight in model.trainable_variables]
    model.fit(INPUTS, np.ones((3, *model.output_shape[1:])), verbose=0)
    for old, weight in zip(before, model.trainable_variables, strict=True):
        assert np.isfinite(numpy(weight)).all() and (numpy(weight) != old).any()
    check_saved_in_a_new_process(model, [INPUTS], numpy(in_one_program(model)(INPUTS)), folder)


@pytest.mark.parametrize("sequences", [False, True])
def test_bidirectional_runs_a_layer_in_each_direction(sequences, tmp_path):
    layer = keras.layers.Bidirectional(GRU(5, return_sequences=sequences))
    layer.build(INPUTS.shape)
    layer.backward_layer.cell.bias.assign(rng.normal(size=15))
    reading = GRU(5, return_sequences=sequences)
    reading.build(INPUTS.shape)
    reading.set_weights(layer.backward_layer.get_weights())
    both, forward, reading = map(in_one_program, (layer, layer.forward_layer, reading))
    for mask in (None, MASK):
        from_left, from_right = np.split(numpy(both(INPUTS, mask=mask)), 2, axis=-1)
        np.testing.assert_allclose(from_left, numpy(forward(INPUTS, mask=mask)), atol=1e-6)
        for row, length in enumerate([6] * 3 if mask is None else [6, 3, 5]):
            alone = numpy(reading(INPUTS[row : row + 1, :length][:, ::-1].copy()))[0]
            if sequences:
                np.testing.assert_allclose(from_right[row, :length], alone[::-1], atol=1e-6)
            else:
                np.testing.assert_allclose(from_right[row], alone, atol=1e-6)
    trained_and_saved(layer, tmp_path, 10)


def test_bidirectional_passes_states_on():
    layer = keras.layers.Bidirectional(GRU(5, return_sequences=True, return_state=True))
    outputs, left, right = layer(INPUTS)
    np.testing.assert_allclose(numpy(outputs)[:, -1, :5], numpy(left), atol=1e-6)
    np.testing.assert_allclose(numpy(outputs)[:, 0, 5:], numpy(right), atol=1e-6)
    again = layer(INPUTS, initial_state=[left, right])[0]
    np.testing.assert_allclose(numpy(again)[..., :5], numpy(layer.forward_layer(INPUTS, initial_state=left)[0]))


@pytest.mark.parametrize("cell", [GRUCell, LSTMCell, RNNCell])
def test_keras_rnn_skips_masked_steps_of_each_cell(cell, tmp_path):
    rnn = keras.layers.RNN(cell(5))
    rnn.build(INPUTS.shape)
    call = in_one_program(rnn)
    masked = numpy(call(INPUTS, mask=MASK))
    for row, length in enumerate([6, 3, 5]):
        np.testing.assert_allclose(masked[row], numpy(call(INPUTS[row : row + 1, :length]))[0], atol=1e-6)
    trained_and_saved(rnn, tmp_path, 5)


def test_cells_are_stacked(tmp_path):
    cells = [GRUCell(3), LSTMCell(5), RNNCell(2)]
    rnn = keras.layers.RNN(keras.layers.StackedRNNCells(cells))
    rnn.build(INPUTS.shape)
    stacked, inputs = numpy(in_one_program(rnn)(INPUTS)), INPUTS
    for cell in cells:
        inputs = numpy(in_one_program(keras.layers.RNN(cell, return_sequences=True))(inputs))
    np.testing.assert_allclose(stacked, inputs[:, -1], atol=1e-6)
    trained_and_saved(rnn, tmp_path, 2)


def test_time_distributed_applies_a_layer_to_every_step():
    layer = keras.layers.TimeDistributed(Maxout(2))
    np.testing.assert_array_equal(numpy(layer(INPUTS)), numpy(Maxout(2)(INPUTS)))
    sentences = np.stack([INPUTS, INPUTS + 1], axis=1)
    inner = GRU(5)
    outer = numpy(keras.layers.TimeDistributed(inner)(sentences))
    np.testing.assert_allclose(outer[:, 1], numpy(inner(INPUTS + 1)), atol=1e-6)
