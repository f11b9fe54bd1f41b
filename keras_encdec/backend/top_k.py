"""The largest values of rows."""

import numpy as np

from keras_encdec.backend.devices import name
from keras_encdec.backend.keras_ops import ops
from keras_encdec.backend.types import Tensor

# Values of which the largest is looked for first.
STRIDED = 32


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The largest values of each long row, as `ops.top_k` gives them: exactly, and in less time under a compiler.

    A compiler's top-k runs over every row on its own, word by word. Here the row is folded to 32 lines, of which
    the maximum is taken column by column, many at a time; the k best columns hold the k best words, and a
    top-k of these few finds them. `benchmarks/decoding.py` shows what it is worth.

    Args:
        values: float tensor `(rows, words)`.
        k: int, at most the number of words.

    Returns:
        tuple: the values `(rows, k)`, the largest first, and their indices, int32. Of equal values any may be
        taken.
    """
    if k == 1 and name() == "torch":
        indices = ops.argmax(values, axis=-1, keepdims=True)
        return ops.take_along_axis(values, indices, axis=-1), ops.cast(indices, "int32")
    words = values.shape[-1]
    columns = -(-words // STRIDED)
    if name() == "torch" or k >= columns:
        # Keras's own returns a named tuple, which not all of the backends' compilers hand on.
        best, indices = ops.top_k(values, k)
        return best, ops.cast(indices, "int32")
    padded = ops.pad(values, [[0, 0], [0, columns * STRIDED - words]], constant_values=-np.inf)
    folded = ops.reshape(padded, (-1, STRIDED, columns))
    _, best_columns = ops.top_k(ops.max(folded, axis=1), k)
    few = ops.reshape(ops.take_along_axis(folded, best_columns[:, None, :], axis=2), (-1, STRIDED * k))
    best, indices = ops.top_k(few, k)
    column = ops.take_along_axis(best_columns, indices % k, axis=1)
    # What the last line is filled up with is no word, although it is no worse than a word of -inf.
    return best, ops.minimum(ops.cast(indices // k * columns + column, "int32"), words - 1)


def stable_top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The largest values of each short row; of equal values the first is taken, and stands first.

    Args:
        values: float tensor `(rows, columns)`.
        k: int, at most the number of columns.

    Returns:
        tuple: the values `(rows, k)`, the largest first, and their indices, int32.
    """
    if name() == "torch":  # whose top-k takes any of equal values
        indices = ops.argsort(-values, axis=-1)[:, :k]
        return ops.take_along_axis(values, indices, axis=-1), ops.cast(indices, "int32")
    best, indices = ops.top_k(values, k)
    return best, ops.cast(indices, "int32")
