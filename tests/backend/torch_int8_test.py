import keras
import numpy as np
import pytest

from keras_encdec.backend.compiled_call import compiled_call, compute_in_int8
from keras_encdec.backend.devices import on_cpu
from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding import Generator
from keras_encdec.models import RecurrentEncoderDecoder
from keras_encdec.scoring import Scorer

on_torch = keras.backend.backend() == "torch"
if on_torch:
    from keras_encdec.backend.torch_int8 import int8_is_available

needs_int8 = pytest.mark.skipif(
    not on_torch or not on_cpu() or not int8_is_available(), reason="no exact products with 8 bits here"
)


@pytest.fixture
def layer():
    """A dense layer without a bias whose products have 8 bits."""
    layer = keras.layers.Dense(40, use_bias=False)
    layer.build((None, 70))
    compute_in_int8(layer)
    return layer


@needs_int8
def test_products_are_those_of_factors_rounded_by_rows_and_columns(layer):
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(70, 40)) * np.geomspace(1e-3, 1e3, 40)
    rows = (rng.normal(size=(5, 70)) * np.geomspace(1e-3, 1e3, 5)[:, None]).astype("float32")
    call = compiled_call(layer)
    for factor in (1, 3):  # weights that change are rounded anew
        layer.kernel.assign(kernel * factor)
        found = keras.ops.convert_to_numpy(call(rows))
        scales = np.abs(rows).max(1, keepdims=True) / 127, np.abs(kernel * factor).max(0) / 127
        expected = np.round(rows / scales[0]) @ np.round(kernel * factor / scales[1]) * scales[0] * scales[1]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=0.02 * np.abs(scales[0] * scales[1]).max())


@needs_int8
def test_the_result_of_a_row_does_not_depend_on_other_rows(layer):
    rows = np.random.default_rng(0).normal(size=(4, 70)).astype("float32")
    call = compiled_call(layer)
    together = keras.ops.convert_to_numpy(call(np.concatenate([rows, 1e4 * rows])))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(call(rows)), together[:4], rtol=1e-5)


@needs_int8
def test_models_with_attention_score_and_generate_with_8_bits():
    model = RecurrentEncoderDecoder(20, 20, cell="lstm", layers=1, units=32, embedding_dim=16, attention="global")
    rng = np.random.default_rng(0)
    pairs = [tuple([*rng.integers(3, 20, rng.integers(1, 7)).tolist(), 2] for _ in range(2)) for _ in range(30)]
    full, rounded = Scorer(model).score(pairs), Scorer(model, "int8").score(pairs)
    difference = np.abs(full - rounded)
    assert 0 < difference.max() < 0.01 * np.abs(full).mean()
    np.testing.assert_allclose(Scorer(model, "int8").score(pairs[:1]), rounded[:1], rtol=1e-5)
    [[best]] = Generator(model, dtype="int8").generate([pairs[0][0]])
    np.testing.assert_allclose(best.log_prob, Scorer(model).score([(pairs[0][0], best.ids)])[0], rtol=0.01)


@pytest.mark.skipif(on_torch, reason="other backends have no fast products with 8 bits")
def test_other_backends_refuse_8_bits():
    with pytest.raises(ConfigurationError, match=r"found dtype=int8 with the backend .*, expected KERAS_BACKEND=torch"):
        compute_in_int8(keras.layers.Dense(3))
