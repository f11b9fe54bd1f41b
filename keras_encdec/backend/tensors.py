"""Tensors of the backend that runs, whatever a value is."""

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.devices import name, xla_on_cpu
from keras_encdec.backend.types import Tensor


def as_tensor(value: Tensor | keras.Variable | np.ndarray) -> Tensor:
    """The value as a tensor; a variable is read, once.

    `keras.ops.convert_to_tensor` hands on TensorFlow's variables as they are. Read at every step of a loop, a variable
    would keep a copy a step for its gradient.

    Args:
        value: tensor, variable or array.
    """
    tensor = ops.convert_to_tensor(value)
    if name() == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(tensor)
    return tensor


def take_rows(table: Tensor, indices: Tensor) -> Tensor:
    """Rows of a table, fetched before they are used.

    On a CPU, XLA would fetch them number by number in the middle of the arithmetic that follows, and do all that
    without vectors. It does not look into a branch, here one that is always taken. `benchmarks/run.py` shows
    what it is worth (scoring).

    Args:
        table: tensor `(n, ...)`.
        indices: int32 tensor `(rows,)`, none negative.

    Returns:
        tensor `(rows, ...)`.
    """
    if not xla_on_cpu() or None in (*table.shape[1:], *indices.shape) or 0 in indices.shape:
        return _take(table, indices)
    shape = (*indices.shape, *table.shape[1:])
    # XLA does not know that no index is negative.
    return ops.cond(indices[0] >= 0, lambda: _take(table, indices), lambda: ops.zeros(shape, dtype=table.dtype))


def _take(table: Tensor, indices: Tensor) -> Tensor:
    if name() == "tensorflow":
        import tensorflow as tf

        # Keras looks for negative indices first, four operations at every step of a served model.
        # `benchmarks/serving.py` shows what it is worth (a batch of one).
        return tf.gather(table, indices)
    return ops.take(table, indices, axis=0)


def store_rows(table: Tensor, start: Tensor, rows: Tensor) -> Tensor:
    """The table with consecutive rows replaced, in place.

    Args:
        table: tensor `(n, ...)`.
        start: int32 scalar, the first of them.
        rows: tensor `(k, ...)`, cast to the table's dtype.
    """
    if name() == "torch":
        table[start : start + rows.shape[0]] = rows
        return table
    # All indices of one dtype, which JAX insists on where it has 64 bits.
    start = (start, *[ops.zeros_like(start)] * (len(table.shape) - 1))
    return ops.slice_update(table, start, ops.cast(rows, table.dtype))
