import keras
import numpy as np
import pytest
from layer_checks import check_layer, numpy

from keras_encdec.layers import DeepOutput, Maxout

rng = np.random.default_rng(0)
STATES, PREVIOUS, CONTEXT = (rng.normal(size=s).astype("float32") for s in [(2, 3, 5), (2, 3, 4), (2, 6)])


def test_follows_the_equations():
    layer = DeepOutput(9, maxout_units=4, rank=2)
    layer(STATES, PREVIOUS, CONTEXT)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    O_h, O_y, O_c, b_O, G_r, G_l, b_G = (numpy(w).astype("float64") for w in layer.trainable_variables)
    wide = STATES @ O_h + PREVIOUS @ O_y + (CONTEXT @ O_c)[:, None] + b_O
    expected = np.maximum(wide[..., 0::2], wide[..., 1::2]) @ G_r @ G_l + b_G
    np.testing.assert_allclose(numpy(layer(STATES, PREVIOUS, CONTEXT)), expected, rtol=1e-4, atol=1e-4)


def test_behaves_as_a_keras_layer(tmp_path):
    config = {"output_dim": 9, "maxout_units": 4, "rank": 2}
    check_layer(DeepOutput, config, [STATES, PREVIOUS, CONTEXT], (2, 3, 9), weights=7, folder=tmp_path)


def test_pools_neighbouring_inputs():
    inputs = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
    expected = np.maximum(inputs[..., 0::2], inputs[..., 1::2])  # s'_1 with s'_2, s'_3 with s'_4, ...
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(Maxout(4)(inputs)), expected)


def test_order_inside_a_group_does_not_matter():
    inputs = np.random.default_rng(1).normal(size=(2, 6)).astype("float32")
    swapped = inputs.reshape(2, 2, 3)[..., ::-1].reshape(2, 6)
    layer = Maxout(2, pool_size=3)
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(layer(x)) for x in (inputs, swapped)))


def test_a_batch_of_no_rows_is_pooled():
    assert numpy(Maxout(3)(np.zeros((0, 5, 6), "float32"))).shape == (0, 5, 3)


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match="7\\), expected 8 features"):
        Maxout(4)(np.zeros((2, 7), "float32"))


def test_states_without_a_time_axis_are_refused():
    with pytest.raises(ValueError, match="expected ndim=3, found ndim=2"):
        DeepOutput(9, maxout_units=4, rank=2)(*np.ones((3, 2, 5), "float32"))


@pytest.mark.parametrize("size", [0, -1, 2.0, "4", None, True])
def test_sizes_are_checked_when_a_layer_is_made(size):
    right = {Maxout: {"units": 4, "pool_size": 2}, DeepOutput: {"output_dim": 9, "maxout_units": 4, "rank": 2}}
    for layer, sizes in right.items():
        for name in sizes:
            with pytest.raises(ValueError, match=f"found {name}={size!r}, expected a whole number, 1 or more"):
                layer(**{**sizes, name: size})


def test_maxout_behaves_as_a_keras_layer(tmp_path):
    inputs = np.random.default_rng(2).normal(size=(2, 5, 12)).astype("float32")
    check_layer(Maxout, {"units": 4, "pool_size": 3}, [inputs], (2, 5, 4), weights=0, folder=tmp_path)
