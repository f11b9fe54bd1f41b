"""Runs what TensorFlow would trace as Python has it."""

import contextlib

import keras


@contextlib.contextmanager
def eagerly():
    """No function of TensorFlow is traced: for a training, that takes longer than ten updates of a tiny model."""
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)
