"""What decoding starts from for each of many sources, with any encoder."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import compiled_call
from keras_encdec.models.tensor_spec import TensorSpec
from keras_encdec.models.translation_model import TranslationModel

# Tokens of a batch, padding counted, and fewer for what is left over.
TOKENS, REST_TOKENS = 2048, 256
LEAST_WIDTH = 8
# Sources for which a smaller table is worth one more shape to compile.
FEW_SOURCES = 64


class BatchEncoder:
    """Encodes the sources of a group in batches of like length. The interface is that of `PrefixTreeEncoder`.

    Args:
        model: TranslationModel.
    """

    def __init__(self, model: TranslationModel) -> None:
        self._call = compiled_call(_Start(model))
        self._specs = {**model.decoder.state_spec, **model.decoder.memory_spec}

    def start(self, sources: np.ndarray, lengths: np.ndarray, rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `PrefixTreeEncoder.start`; arrays, float32 where the tensors are floats of fewer bits.

        A state or a memory along the source may be large: it gets no more rows than a few sources need.
        """
        steps = padded_width(int(lengths.max()))
        if len(lengths) <= FEW_SOURCES and any(spec.time_axis for spec in self._specs.values()):
            rows = min(rows, FEW_SOURCES)
        tables = None
        for indices, size, width in _batches(lengths):
            ids = np.zeros((size, width), np.int32)
            ids[: len(indices), : sources.shape[1]] = sources[indices, :width]
            started = keras.tree.map_structure(ops.convert_to_numpy, self._call(ids))
            if tables is None:
                tables = [self._tables(tensors, rows, steps) for tensors in started]
            for table, tensors in zip(tables, started, strict=True):
                for name, tensor in tensors.items():
                    axis = self._specs[name].time_axis
                    padding = [(0, steps - width if i == axis else 0) for i in range(tensor.ndim)]
                    table[name][indices] = np.pad(tensor, padding)[: len(indices)]
        return tuple(tables)

    def _tables(self, tensors: dict[str, np.ndarray], rows: int, steps: int) -> dict[str, np.ndarray]:
        return {
            name: np.zeros((rows, *self._specs[name].with_time(steps)), tensor.dtype)
            for name, tensor in tensors.items()
        }


class _Start(keras.layers.Layer):
    def __init__(self, model) -> None:
        super().__init__(name="start", dtype=model.dtype_policy)
        self.model = model
        self.built = True

    def call(self, source):
        state, memory = self.model.start(source)
        decoder = self.model.decoder
        return [_for_numpy(state, decoder.state_spec), _for_numpy(memory, decoder.memory_spec)]


def _for_numpy(tensors: dict[str, Any], specs: dict[str, TensorSpec]) -> dict[str, Any]:
    """The tensors; NumPy has no bfloat16."""
    return {name: tensors[name] if spec.dtype else ops.cast(tensors[name], "float32") for name, spec in specs.items()}


def padded_width(length: int) -> int:
    """The width that sources of a length are padded to: a power of two, so that few shapes are compiled."""
    return max(LEAST_WIDTH, 1 << (length - 1).bit_length())


def _batches(lengths: np.ndarray) -> Iterator[tuple[np.ndarray, int, int]]:
    """Yields indices of sources of like length, the rows of their batch and its width.

    The widths are few, and the rows of each, as each shape is compiled anew.
    """
    widths = np.array([padded_width(int(length)) for length in lengths])
    for width in np.unique(widths):
        indices, start = np.flatnonzero(widths == width), 0
        many, few = max(1, TOKENS // width), max(1, REST_TOKENS // width)
        while start < len(indices):
            size = many if len(indices) - start > many // 2 else few
            yield indices[start : start + size], size, width
            start += size
