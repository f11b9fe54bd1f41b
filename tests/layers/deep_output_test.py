import numpy as np
from layer_checks import check_layer, numpy

from keras_encdec.layers import DeepOutput

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
