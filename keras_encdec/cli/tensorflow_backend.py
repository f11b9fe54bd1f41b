"""Keras on TensorFlow, for the commands that export a SavedModel or verify it."""

import importlib
import os


def import_keras_on_tensorflow() -> None:
    """Chooses Keras's TensorFlow backend and imports Keras without start-up messages.

    A SavedModel is made with TensorFlow, which loads weights that any backend trained. If Keras was imported before
    with another backend, it keeps that backend.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    importlib.import_module("keras_encdec.backend.startup")
