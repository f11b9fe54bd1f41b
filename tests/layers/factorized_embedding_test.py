import keras
import numpy as np
import pytest
from layer_checks import check_layer, numpy

from keras_encdec.layers import FactorizedEmbedding

IDS = np.array([[4, 0, 7], [1, 2, 0]])


def test_it_looks_up_rows_and_returns_zero_for_id_0():
    layer = FactorizedEmbedding(8, rank=3)
    layer(IDS)
    assert not numpy(layer.embeddings)[0].any(), "row 0 starts as zero"
    table = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    layer.embeddings.assign(table)
    expected = table[IDS]
    expected[IDS == 0] = 0
    np.testing.assert_array_equal(numpy(layer(IDS)), expected)
    np.testing.assert_array_equal(numpy(layer.compute_mask(IDS)), IDS != 0)


def test_with_units_it_returns_the_product_of_both_factors():
    layer = FactorizedEmbedding(8, rank=3, units=5)
    product = numpy(layer(IDS))
    np.testing.assert_allclose(product, numpy(layer.embeddings)[IDS] @ numpy(layer.projection), atol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adadelta", "adamw"])
def test_row_0_stays_zero_whatever_the_optimizer(optimizer):
    layer = FactorizedEmbedding(8, rank=3)
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    model.fit(IDS, np.ones((2, 3, 1)), epochs=3, verbose=0)
    assert not numpy(layer.embeddings)[0].any()
    assert numpy(layer.embeddings)[4].any()


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_sizes_are_checked_when_the_layer_is_made(size):
    for name in ("input_dim", "rank", "units"):
        with pytest.raises(ValueError, match=f"found {name}={size!r}, expected a whole number, 1 or more"):
            FactorizedEmbedding(**{"input_dim": 8, "rank": 3, name: size})


def test_behaves_as_a_keras_layer(tmp_path):
    config = {"input_dim": 8, "rank": 3, "units": 5}
    check_layer(FactorizedEmbedding, config, [IDS.astype("int32")], (2, 3, 5), 2, tmp_path, differentiable=False)
