"""What a decoder starts with for each of many sources, with any encoder."""

import keras
import numpy as np
from keras import ops

from keras_encdec.scoring.compiled import compiled_call

# Tokens of a batch, padding counted, and fewer for what is left over.
TOKENS, REST = 2048, 256


class BatchEncoder:
    """Encodes the sources of a group in batches of like length. The interface is that of `PrefixEncoder`.

    Args:
        model: TranslationModel.
        most: int. Sources at most.
    """

    def __init__(self, model, most):
        self._start = compiled_call(_Start(model))
        self._most = most

    def start(self, sources, lengths):
        """See `PrefixEncoder.start`; float32 arrays."""
        started = None
        for chosen, size, width in _batches(lengths):
            ids = np.zeros((size, width), np.int32)
            ids[: len(chosen), : sources.shape[1]] = sources[chosen, :width]
            parts = keras.tree.map_structure(ops.convert_to_numpy, self._start(ids))
            if started is None:
                started = [np.zeros((self._most, part.shape[1]), part.dtype) for part in parts]
            for table, part in zip(started, parts, strict=True):
                table[chosen] = part[: len(chosen)]
        return started


class _Start(keras.layers.Layer):
    def __init__(self, model):
        super().__init__(name="start", dtype=model.dtype_policy)
        self.model = model
        self.built = True

    def call(self, source):
        # NumPy has no bfloat16.
        return [ops.cast(part, "float32") for part in keras.tree.flatten(self.model.start(source))]


def _batches(lengths):
    """Yields sources of like length: their places, the rows of the batch and its width.

    The widths are few, and the rows of each, as each shape is compiled anew.
    """
    widths = np.maximum(8, 1 << np.ceil(np.log2(lengths)).astype(np.int64))
    for width in np.unique(widths):
        chosen, start = np.flatnonzero(widths == width), 0
        many, few = max(1, TOKENS // width), max(1, REST // width)
        while start < len(chosen):
            size = many if len(chosen) - start > many // 2 else few
            yield chosen[start : start + size], size, width
            start += size
