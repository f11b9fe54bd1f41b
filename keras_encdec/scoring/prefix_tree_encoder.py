"""What decoding starts from for each of many sources, the encoder's states of their common prefixes computed once."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import compiled_call
from keras_encdec.backend.loops import counted_loop
from keras_encdec.backend.tables import store_rows, take_rows
from keras_encdec.models.tensor_spec import TensorSpec
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.scoring.node_batches import NodeBatches, largest_batch
from keras_encdec.scoring.prefix_tree import PrefixTree


class PrefixTreeEncoder:
    """Encodes the sources of a group with an incremental encoder, such as that of `RNNEncoderDecoder`.

    Args:
        model: TranslationModel whose `encoder.is_incremental`.
        slots: int. Slots for states, unless a source is longer.
    """

    def __init__(self, model: TranslationModel, slots: int) -> None:
        self._call = compiled_call(_PrefixTreeCall(model))
        self._slots = slots

    def start(self, sources: np.ndarray, lengths: np.ndarray, rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first state and the memory of each source.

        Args:
            sources: int array `(m, width)`, ids padded with 0.
            lengths: int array `(m,)`.
            rows: int. Rows of the results, at least m.

        Returns:
            tuple: state and memory, dicts of tensors `(rows, ...)`, the first m rows for the sources.
        """
        return self._call(*call_arguments(sources, lengths, self._slots, rows))


def call_arguments(sources: np.ndarray, lengths: np.ndarray, slots: int, rows: int) -> tuple[np.ndarray, ...]:
    """The arguments of the compiled call for a group of sources; see `PrefixTreeEncoder.start`."""
    tree = PrefixTree(sources, lengths)
    batches = NodeBatches(tree, int(largest_batch(lengths.max())), slots)
    lasts = np.zeros(rows, np.int32)
    lasts[: len(sources)] = batches.slots[tree.paths[np.arange(len(sources)), lengths - 1]]
    # No more sources at a time than there may be.
    lasts = lasts.reshape(-1, min(batches.size, rows))
    return (
        batches.filled(tree.ids), batches.parents, np.int32(batches.used),
        lasts, np.int32(-(-len(sources) // lasts.shape[1])),
    )  # fmt: skip


class _PrefixTreeCall(keras.layers.Layer):
    """Goes through the tree of source prefixes, batch by batch, and starts the decoder from whole sources.

    Call arguments:
        ids: int32 tensor `(batches, size)`, the last ids of source prefixes, in an order in which each
            follows its parent's batch.
        parents: int32 tensor `(batches, size)`: the slot of the parent, that is batch * size + column, or -1.
        batches: int32 scalar, how many of the batches are in use.
        lasts: int32 tensor `(groups, size)`, the slots of whole sources.
        last_batches: int32 scalar, how many of these groups are in use.
    """

    def __init__(self, model) -> None:
        super().__init__(name="prefix_tree_encoder", dtype=model.dtype_policy)
        self.encoder, self.decoder = model.encoder, model.decoder
        self.built = True

    def call(self, ids, parents, batches, lasts, last_batches):
        states, size = self._states(ids, parents, batches), lasts.shape[1]

        def body(batch, *tables):
            state = {name: ops.take(table, lasts[batch] + 1, axis=0) for name, table in states.items()}
            started = self.decoder.start(self.encoder.finish(state))
            return [
                {name: store_rows(rows, batch * size, new[name]) for name, rows in table.items()}
                for table, new in zip(tables, started, strict=True)
            ]

        rows, specs = lasts.shape[0] * size, (self.decoder.state_spec, self.decoder.memory_spec)
        return counted_loop(body, last_batches, *(self._zeros(rows, spec) for spec in specs))

    def _states(self, ids, parents, batches):
        """Tables of the encoder's states, `(1 + slots, ...)`, the first row of them zero."""
        size = ids.shape[1]

        def body(batch, tables):
            state = {name: take_rows(table, parents[batch] + 1) for name, table in tables.items()}
            state = self.encoder.step(ids[batch], state)
            return [{name: store_rows(table, 1 + batch * size, state[name]) for name, table in tables.items()}]

        return counted_loop(body, batches, self._zeros(1 + ids.shape[0] * size, self.encoder.state_spec))[0]

    def _zeros(self, rows: int, specs: dict[str, TensorSpec]) -> dict[str, Any]:
        return {
            name: ops.zeros((rows, *spec.shape), dtype=spec.dtype or self.compute_dtype)
            for name, spec in specs.items()
        }
