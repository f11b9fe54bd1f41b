"""Keras on TensorFlow, for the commands that make a SavedModel."""

import importlib
import os


def import_keras_on_tensorflow() -> None:
    """Chooses Keras's TensorFlow backend and imports Keras without start-up messages.

    A SavedModel is made under TensorFlow. Weights load there whichever backend trained them. Where Keras was imported
    before on another backend, that stays.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    importlib.import_module("keras_encdec.backend.startup")
