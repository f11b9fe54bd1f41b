"""The k largest values of each row, fast and exact."""

import numpy as np

from keras_encdec.backend.devices import name
from keras_encdec.backend.keras_ops import ops
from keras_encdec.backend.types import Tensor

# Values of a row in one column of the folded row, whose maximum is taken first.
STRIDED = 32


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each long row: the exact result of `ops.top_k`, faster in a compiled function.

    A compiled top-k goes through each row value by value. Here each row is folded into 32 lines, and the maximum of
    each column is taken, many columns at once. The k columns with the largest maxima hold the k largest values, and a
    top-k of these columns finds them. `benchmarks/decoding.py` measures the benefit.

    Args:
        values: float tensor `(rows, words)`.
        k: int, at most the number of words.

    Returns:
        tuple: the values `(rows, k)`, the largest first, and their indices, int32. Any of equal values may be
        returned.
    """
    if k == 1 and name() == "torch":
        indices = ops.argmax(values, axis=-1, keepdims=True)
        return ops.take_along_axis(values, indices, axis=-1), ops.cast(indices, "int32")
    words = values.shape[-1]
    columns = -(-words // STRIDED)
    if name() == "torch" or k >= columns:
        # ops.top_k returns a named tuple, which some compilers cannot return.
        best, indices = ops.top_k(values, k)
        return best, ops.cast(indices, "int32")
    padded = ops.pad(values, [[0, 0], [0, columns * STRIDED - words]], constant_values=-np.inf)
    folded = ops.reshape(padded, (-1, STRIDED, columns))
    _, best_columns = ops.top_k(ops.max(folded, axis=1), k)
    candidates = ops.reshape(ops.take_along_axis(folded, best_columns[:, None, :], axis=2), (-1, STRIDED * k))
    best, indices = ops.top_k(candidates, k)
    column = ops.take_along_axis(best_columns, indices % k, axis=1)
    # The last line is padded with -inf, which a word of -inf equals: the index must stay that of a word.
    return best, ops.minimum(ops.cast(indices // k * columns + column, "int32"), words - 1)


def stable_top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each short row; equal values stay in their order.

    Args:
        values: float tensor `(rows, columns)`.
        k: int, at most the number of columns.

    Returns:
        tuple: the values `(rows, k)`, the largest first, and their indices, int32.
    """
    if name() == "torch":  # its top-k does not keep the order of equal values
        indices = ops.argsort(-values, axis=-1)[:, :k]
        return ops.take_along_axis(values, indices, axis=-1), ops.cast(indices, "int32")
    best, indices = ops.top_k(values, k)
    return best, ops.cast(indices, "int32")
