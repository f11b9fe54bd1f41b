import keras
import numpy as np
import pytest
from layer_checks import check_layer, numpy

from keras_encdec.layers import Dropout


def compiled_by_xla(layer):
    import tensorflow as tf

    return tf.function(lambda inputs: layer(inputs, training=True), jit_compile=True)


def eager(layer):
    return lambda inputs: layer(inputs, training=True)


@pytest.mark.parametrize("way", [eager] + [compiled_by_xla] * (keras.backend.backend() == "tensorflow"))
def test_it_zeroes_a_share_scales_the_rest_and_draws_anew_at_each_call(way):
    keras.utils.set_random_seed(1)
    call = way(Dropout(0.3))
    inputs = np.full((200, 500), 0.7, "float32")
    one, other = (numpy(call(inputs)) for _ in range(2))
    for outputs in (one, other):
        kept = outputs != 0
        # 100,000 draws: the share of those kept has a standard deviation of 0.0014.
        assert abs(kept.mean() - 0.7) < 0.01
        assert abs(kept.mean(axis=0) - 0.7).max() < 0.15 and abs(kept.mean(axis=1) - 0.7).max() < 0.1
        np.testing.assert_allclose(outputs[kept], 1.0, rtol=1e-6)
    agree = ((one != 0) == (other != 0)).mean()
    assert abs(agree - (0.7**2 + 0.3**2)) < 0.01, "two draws are independent"


def test_without_training_or_with_a_rate_of_zero_nothing_changes():
    inputs = np.ones((4, 5), "float32")
    np.testing.assert_array_equal(numpy(Dropout(0.9)(inputs)), inputs)
    np.testing.assert_array_equal(numpy(Dropout(0.0)(inputs, training=True)), inputs)
    with pytest.raises(ValueError, match="rate"):
        Dropout(1.5)


def test_only_the_inputs_that_were_kept_get_a_gradient():
    keras.utils.set_random_seed(2)
    inputs = np.ones((1, 40), "float32")
    model = keras.Sequential([keras.layers.Dense(40, kernel_initializer="identity", use_bias=False), Dropout(0.5)])
    model.build((1, 40))
    model.compile(keras.optimizers.SGD(1.0), lambda wanted, outputs: keras.ops.sum(outputs))
    model.fit(inputs, inputs, verbose=0)
    steps = np.eye(40) - numpy(model.layers[0].kernel)  # all rows are equal: 0 where dropped, else 2
    assert set(np.unique(steps.round(4))) == {0.0, 2.0} and (steps == steps[0]).all()


def test_behaves_as_a_keras_layer(tmp_path):
    inputs = np.random.default_rng(2).normal(size=(2, 5, 12)).astype("float32")
    check_layer(Dropout, {"rate": 0.2}, [inputs], (2, 5, 12), weights=0, folder=tmp_path)


def test_a_saved_layer_continues_its_random_numbers(tmp_path):
    inputs = np.ones((3, 50), "float32")
    layer = Dropout(0.5, seed=3 if keras.backend.backend() == "torch" else None)
    layer(inputs, training=True)
    model = keras.Sequential([keras.Input((50,)), layer])
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras").layers[-1]
    np.testing.assert_array_equal(*(numpy(one(inputs, training=True)) for one in (again, layer)))
