"""Conversion of values to tensors, and rows read from and written to tables."""

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.devices import name, xla_on_cpu
from keras_encdec.backend.types import Tensor


def as_tensor(value: Tensor | keras.Variable | np.ndarray) -> Tensor:
    """Converts a value to a tensor; reads a variable once.

    `keras.ops.convert_to_tensor` returns TensorFlow's variables unchanged. A variable that is read at every step of a
    loop keeps a copy per step for its gradient.

    Args:
        value: tensor, variable or array.
    """
    tensor = ops.convert_to_tensor(value)
    if name() == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(tensor)
    return tensor


def take_rows(table: Tensor, indices: Tensor) -> Tensor:
    """Returns rows of a table, copied before they are used.

    On a CPU, XLA would fuse the copy into the arithmetic that follows, and then not vectorize it. XLA does not fuse
    across a branch, so the copy stands in a branch that is always taken. `benchmarks/run.py` (scoring) measures the
    benefit.

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

        # Keras would check for negative indices, four more operations at every step of a served model.
        # `benchmarks/serving.py` (a batch of one) measures the benefit.
        return tf.gather(table, indices)
    return ops.take(table, indices, axis=0)


def store_rows(table: Tensor, start: Tensor, rows: Tensor) -> Tensor:
    """Replaces consecutive rows of a table, in place, and returns the table.

    Args:
        table: tensor `(n, ...)`.
        start: int32 scalar, the index of the first row.
        rows: tensor `(k, ...)`, cast to the table's dtype.
    """
    if name() == "torch":
        table[start : start + rows.shape[0]] = rows
        return table
    # JAX with 64 bits requires all indices to have one dtype.
    start = (start, *[ops.zeros_like(start)] * (len(table.shape) - 1))
    return ops.slice_update(table, start, ops.cast(rows, table.dtype))
