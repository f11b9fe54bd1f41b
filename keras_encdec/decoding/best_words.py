"""The best words of many rows."""

import keras
import numpy as np
from keras import ops

# Words of which the best is looked for first.
STRIDED = 32


def best_words(values, k):
    """The largest values of each row, as `ops.top_k` gives them: exactly, and in less time under a compiler.

    A compiler's top-k runs over every row on its own, word by word. Here the row is folded to 32 lines, of which
    the maximum is taken column by column, many at a time; the k best columns hold the k best words, and a
    top-k of these few finds them.

    Args:
        values: float tensor `(rows, words)`.
        k: int, at most the number of words.

    Returns:
        tuple: the values `(rows, k)`, the largest first, and their places, int32. Of equal values any may be
        taken.
    """
    if k == 1 and keras.backend.backend() == "torch":
        places = ops.argmax(values, axis=-1, keepdims=True)
        return ops.take_along_axis(values, places, axis=-1), ops.cast(places, "int32")
    words = values.shape[-1]
    columns = -(-words // STRIDED)
    if keras.backend.backend() == "torch" or k >= columns:
        # Keras's own returns a named tuple, which not all of the backends' compilers hand on.
        best, places = ops.top_k(values, k)
        return best, ops.cast(places, "int32")
    padded = ops.pad(values, [[0, 0], [0, columns * STRIDED - words]], constant_values=-np.inf)
    folded = ops.reshape(padded, (-1, STRIDED, columns))
    _, best_columns = ops.top_k(ops.max(folded, axis=1), k)
    few = ops.reshape(ops.take_along_axis(folded, best_columns[:, None, :], axis=2), (-1, STRIDED * k))
    best, places = ops.top_k(few, k)
    column = ops.take_along_axis(best_columns, places % k, axis=1)
    # What the last line is filled up with is no word, although it is no worse than a word of -inf.
    return best, ops.minimum(ops.cast(places // k * columns + column, "int32"), words - 1)
