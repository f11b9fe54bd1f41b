import keras
import numpy as np
import pytest
from layer_checks import check_layer

from keras_encdec.layers import Maxout


def test_pools_neighbouring_inputs():
    inputs = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
    expected = np.maximum(inputs[..., 0::2], inputs[..., 1::2])  # s'_1 with s'_2, s'_3 with s'_4, ...
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(Maxout(4)(inputs)), expected)


def test_order_inside_a_group_does_not_matter():
    inputs = np.random.default_rng(1).normal(size=(2, 6)).astype("float32")
    swapped = inputs.reshape(2, 2, 3)[..., ::-1].reshape(2, 6)
    layer = Maxout(2, pool_size=3)
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(layer(x)) for x in (inputs, swapped)))


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match="7\\), expected 8 features"):
        Maxout(4)(np.zeros((2, 7), "float32"))


def test_behaves_as_a_keras_layer(tmp_path):
    inputs = np.random.default_rng(2).normal(size=(2, 5, 12)).astype("float32")
    check_layer(Maxout, {"units": 4, "pool_size": 3}, [inputs], (2, 5, 4), weights=0, folder=tmp_path)
