"""Training steps as the backend compiles them."""

import logging

import keras
import numpy as np
import pytest

from keras_encdec.backend import training_step
from keras_encdec.backend.devices import on_cpu
from keras_encdec.backend.training_step import StepCompilation, compile_by_shape
from keras_encdec.models import RNNEncoderDecoder


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's warning")
def test_a_step_for_each_of_many_shapes_is_no_reason_to_warn(caplog):
    import tensorflow as tf

    model = keras.Sequential([keras.Input((None, 1)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(), "mse")
    compilation = compile_by_shape(model, jit_compile=False)
    batches = (np.ones((2, width, 1), "float32") for width in range(1, 9))
    with caplog.at_level(logging.WARNING, "tensorflow"):
        logger = logging.getLogger("tensorflow")
        logger.addHandler(caplog.handler)  # TensorFlow's messages do not reach the root logger
        try:
            train = iter([(batch, batch) for batch in map(tf.constant, batches)])
            for _ in range(8):
                model.train_function(train)
        finally:
            logger.removeHandler(caplog.handler)
    assert compilation.shapes == 8
    assert "retracing" not in caplog.text


@pytest.mark.skipif(keras.backend.backend() != "torch" or not on_cpu(), reason="PyTorch's products on a CPU")
@pytest.mark.parametrize("weights", ["few", "many"])
def test_onednn_multiplies_in_training_and_validation_of_many_weights(weights, monkeypatch):
    from keras_encdec.backend import torch_products

    monkeypatch.setattr(torch_products, "is_from_intel", lambda: False)
    products, multiply = [], torch_products.onednn_product
    monkeypatch.setattr(torch_products, "onednn_product", lambda *args: products.append(args) or multiply(*args))
    others, own = [], torch_products.torch.matmul
    monkeypatch.setattr(torch_products.torch, "matmul", lambda *args: others.append(args) or own(*args))
    ids = np.array([[3, 4, 2], [5, 2, 0]], "int32")

    def results(set_up):
        keras.utils.set_random_seed(0)
        model = RNNEncoderDecoder(5, 5, embedding_dim=3, units=4, maxout_units=2, output_rank=2)
        model.compile(keras.optimizers.Adadelta(1.0))
        set_up(model)
        counts = [len(products)]
        found = []
        for compute in (model.fit, model.evaluate):
            compute({"source": ids, "target": ids}, verbose=0)
            counts.append(len(products))
            found += [keras.ops.convert_to_numpy(variable) for variable in model.variables]
        return found, np.diff(counts)

    if weights == "many":
        monkeypatch.setattr(training_step, "MIN_WEIGHTS", 100)
    expected, _ = results(lambda model: None)
    others.clear()
    found, counts = results(StepCompilation("auto").apply)
    computes = weights == "many" and torch_products._AVAILABLE
    assert (counts > 0).tolist() == [computes] * 2
    assert bool(others) != computes  # also not for the gradients, which the recurrences compute themselves
    for mine, keras_own in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, keras_own, rtol=1e-5, atol=1e-6)


def test_a_model_that_was_compiled_under_pytorch_has_the_optimizers_of_each_backend():
    model = RNNEncoderDecoder(5, 5, embedding_dim=3, units=4, maxout_units=2, output_rank=2)
    for optimizer in (keras.optimizers.Adam(), keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())):
        model.compile(optimizer)
        config = model.get_compile_config()
        saved = config["optimizer"]
        saved = saved["config"].get("inner_optimizer", saved)
        saved["module"] = "keras.src.backend.torch.optimizers.torch_adam"
        again = RNNEncoderDecoder.from_config(model.get_config())
        again.compile_from_config(config)
        assert type(again.optimizer) is type(optimizer)
        found = getattr(again.optimizer, "inner_optimizer", again.optimizer)
        assert type(found) is type(keras.optimizers.Adam())
