"""Training steps as the backend compiles them."""

import logging

import keras
import numpy as np
import pytest

from keras_encdec.backend.training_step import compile_by_shape


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
