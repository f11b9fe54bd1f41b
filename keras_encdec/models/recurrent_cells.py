"""The cells that recurrent models are stacked from, with their initial weights."""

import keras

from keras_encdec.layers.gru_cell import GRUCell
from keras_encdec.layers.lstm_cell import LSTMCell
from keras_encdec.layers.rnn_cell import RNNCell

CELLS = {"lstm": LSTMCell, "gru": GRUCell, "rnn": RNNCell}


def recurrent_cell(cell, units, initial_scale, dtype):
    """A cell of uniform initial weights.

    Args:
        cell: "lstm", "gru" or "rnn".
        units: int. Number of hidden units.
        initial_scale: float. Bound of the initial weights.
        dtype: the dtype policy.

    Raises:
        ValueError: for another cell.
    """
    if cell not in CELLS:
        raise ValueError(f"found cell={cell!r}, expected one of {', '.join(map(repr, CELLS))}")
    return CELLS[cell](
        units,
        kernel_initializer=uniform(initial_scale),
        recurrent_initializer=uniform(initial_scale),
        dtype=dtype,
    )


def dense(units, initial_scale, dtype, activation=None, use_bias=True):
    """A Dense layer of uniform initial weights."""
    return keras.layers.Dense(units, activation, use_bias, kernel_initializer=uniform(initial_scale), dtype=dtype)


def uniform(initial_scale):
    """Uniform distribution between minus and plus the bound."""
    return keras.initializers.RandomUniform(-initial_scale, initial_scale)
