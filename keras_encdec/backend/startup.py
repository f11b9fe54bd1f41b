"""Imports Keras without the start-up messages of its backend; commands import this module before Keras.

TensorFlow writes its first messages before any setting can stop it, and they mean nothing to the user of a command. All
other messages of the import are shown.
"""

from keras_encdec.backend.quiet_imports import quietly
from keras_encdec.errors import InputError

try:
    with quietly():
        import keras

        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            tf.config.list_physical_devices()  # looks for a GPU, which writes another message
except (ImportError, ValueError) as error:
    raise InputError(
        f"found no usable backend of Keras ({error})",
        "expected tensorflow, jax or torch",
        "install it, or set KERAS_BACKEND to one that is installed",
    ) from error
