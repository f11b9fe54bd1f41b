"""Chooses Keras's TensorFlow backend; commands that export import this module first.

A SavedModel is made under TensorFlow. Weights load there whichever backend trained them.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras_encdec.cli.quiet_keras  # noqa: E402, F401
