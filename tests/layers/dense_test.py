import numpy as np
import pytest
from gradients import double_precision
from keras.ops import convert_to_numpy
from layer_checks import check_layer

from keras_encdec.layers.dense import Dense


@pytest.mark.parametrize("activation", [None, "tanh", "relu"])
def test_float64_is_computed_in_float64(activation):
    inputs = np.random.default_rng(0).normal(size=(2, 3, 5))
    with double_precision():
        layer = Dense(4, activation=activation, bias_initializer="ones", dtype="float64")
        outputs = convert_to_numpy(layer(inputs))
        kernel = convert_to_numpy(layer.kernel)
    sums = inputs @ kernel + 1
    expected = {None: sums, "tanh": np.tanh(sums), "relu": np.maximum(sums, 0)}[activation]
    np.testing.assert_allclose(outputs, expected, atol=1e-14)


def test_behaves_as_a_keras_layer(tmp_path):
    inputs = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
    check_layer(Dense, {"units": 4, "use_bias": True}, [inputs], (2, 3, 4), 2, tmp_path)
