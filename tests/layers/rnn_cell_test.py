import keras
import numpy as np
from layer_checks import numpy

from keras_encdec.layers.recurrent_cell import RNNCell


def test_it_is_keras_cell():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(3, 6, 5)).astype("float32")
    cell, other = RNNCell(4), keras.layers.SimpleRNN(4)
    for layer, shape in ((cell, (None, 5)), (other, (None, None, 5))):
        layer.build(shape)
        layer.set_weights([np.random.default_rng(1).normal(0, 0.5, weight.shape) for weight in layer.weights])
    np.testing.assert_allclose(numpy(keras.layers.RNN(cell)(inputs)), numpy(other(inputs)), atol=1e-6)


def test_config_round_trips():
    cell = RNNCell(3, kernel_initializer="ones")
    again = RNNCell.from_config(cell.get_config())
    assert again.get_config() == cell.get_config()
    again.build((None, 2))
    np.testing.assert_array_equal(numpy(again.recurrent_kernel), np.ones((3, 3)))
