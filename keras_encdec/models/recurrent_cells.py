"""Cells and matrices of uniform initial weights, of which the recurrent models are stacked."""

from typing import Any

import keras

from keras_encdec.layers.cells import recurrent_cell_class
from keras_encdec.layers.recurrent_cell import RecurrentCell


def recurrent_cell(cell: str, units: int, initial_scale: float, dtype: Any) -> RecurrentCell:
    """A cell of uniform initial weights.

    Args:
        cell: str. Name of a registered cell: "lstm", "gru" or "rnn".
        units: int. Number of hidden units.
        initial_scale: float. Bound of the initial weights.
        dtype: the dtype policy.

    Raises:
        ValueError: for a cell that is not registered.
    """
    return recurrent_cell_class(cell)(
        units,
        kernel_initializer=uniform(initial_scale),
        recurrent_initializer=uniform(initial_scale),
        dtype=dtype,
    )


def dense(
    units: int, initial_scale: float, dtype: Any, activation: str | None = None, use_bias: bool = True
) -> keras.layers.Dense:
    """A Dense layer of uniform initial weights."""
    return keras.layers.Dense(units, activation, use_bias, kernel_initializer=uniform(initial_scale), dtype=dtype)


def uniform(initial_scale: float) -> keras.initializers.Initializer:
    """Uniform distribution between minus and plus the bound."""
    return keras.initializers.RandomUniform(-initial_scale, initial_scale)
