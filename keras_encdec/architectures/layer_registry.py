"""Recurrent cells and kinds of attention by name, so that commands know the names before Keras is imported.

The classes register themselves when `keras_encdec.layers` is imported.
"""

from typing import Any

from keras_encdec.registry import Registry

CELLS: Registry[type[Any]] = Registry("cell", expected=["rnn", "lstm", "gru"])
ATTENTIONS: Registry[type[Any]] = Registry("attention", others=["none"], expected=["global", "local_m", "local_p"])
