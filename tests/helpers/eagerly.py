"""Runs functions in Python that TensorFlow would trace."""

import contextlib
from unittest import mock

import keras

COMPILES = [
    "keras_encdec.decoding.ensemble",
    "keras_encdec.decoding.unknown_speller",
    "keras_encdec.scoring.source_encoder",
    "keras_encdec.scoring.ngram_scorer",
    "keras_encdec.scoring.scorer",
    "keras_encdec.web.neighbourhood",
]


@contextlib.contextmanager
def eagerly():
    """TensorFlow traces no function: tracing takes longer than ten updates of a tiny model."""
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


@contextlib.contextmanager
def uncompiled():
    """No search or scorer made within is compiled for TensorFlow; other backends compile theirs as usual."""

    def call(layer):
        return lambda *inputs: layer(*keras.tree.map_structure(keras.ops.convert_to_tensor, inputs))

    with contextlib.ExitStack() as patches:
        if keras.backend.backend() == "tensorflow":
            for module in COMPILES:
                patches.enter_context(mock.patch(f"{module}.compiled_call", call))
        yield
