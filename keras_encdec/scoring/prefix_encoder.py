"""What a decoder starts with for each of many sources, the states of their common prefixes computed once."""

import keras
import numpy as np
from keras import ops

from keras_encdec.scoring.batches import Batches, largest_batch
from keras_encdec.scoring.compiled import compiled_call
from keras_encdec.scoring.pools import repeat, rows, stored
from keras_encdec.scoring.prefixes import PrefixTree


class PrefixEncoder:
    """Encodes the sources of a group with the one-way encoder of `RNNEncoderDecoder`.

    Args:
        model: RNNEncoderDecoder.
        slots: int. Slots for states, unless a source is longer.
        most: int. Sources at most.
    """

    def __init__(self, model, slots, most):
        self._walk = compiled_call(_Walk(model))
        self._slots, self._most = slots, most

    def start(self, sources, lengths):
        """What the decoder's `start` gives for each source.

        Args:
            sources: int array `(m, width)`, ids padded with 0.
            lengths: int array `(m,)`.

        Returns:
            tuple of tensors `(most, width)`, the first m rows for the sources.
        """
        return self._walk(*arguments(sources, lengths, self._slots, self._most))


def arguments(sources, lengths, slots, most):
    """The call arguments of the walk through the prefixes of some sources."""
    tree = PrefixTree(sources, lengths)
    batches = Batches(tree, largest_batch(lengths.max()), slots)
    lasts = np.zeros(most, np.int32)
    lasts[: len(sources)] = batches.slots[tree.paths[np.arange(len(sources)), lengths - 1]]
    # No more sources at a time than there may be.
    lasts = lasts.reshape(-1, min(batches.size, most))
    return (
        batches.filled(tree.ids), batches.parents, np.int32(batches.used),
        lasts, np.int32(-(-len(sources) // lasts.shape[1])),
    )  # fmt: skip


class _Walk(keras.layers.Layer):
    """Walks the tree of source prefixes, batch by batch, and makes of whole sources what the decoder starts with.

    Call arguments:
        ids: int32 tensor `(batches, size)`, the last ids of source prefixes, in an order in which each
            follows its parent's batch.
        parents: int32 tensor, likewise: the slot of the parent, that is batch * size + place, or -1.
        batches: int32 scalar, how many of the batches are in use.
        lasts: int32 tensor `(groups, size)`, the slots of whole sources.
        last_batches: int32 scalar, how many groups are in use.
    """

    def __init__(self, model):
        super().__init__(name="walk", dtype=model.dtype_policy)
        self.encoder, self.decoder = model.encoder, model.decoder
        self.built = True

    def call(self, ids, parents, batches, lasts, last_batches):
        states, size = self._states(ids, parents, batches), lasts.shape[1]

        def started(places):
            parts = self.decoder.start(self.encoder.summary(ops.take(states, places + 1, axis=0)))
            return keras.tree.flatten(parts)

        def body(batch, *pools):
            parts = started(lasts[batch])
            return batch + 1, *(stored(p, batch * size, part) for p, part in zip(pools, parts, strict=True))

        slots, widths = lasts.shape[0] * size, self.decoder.state_sizes + self.decoder.memory_sizes
        pools = [ops.zeros((slots, width), dtype=self.compute_dtype) for width in widths]
        return tuple(repeat(body, last_batches, *pools))

    def _states(self, ids, parents, batches):
        """The pool of the encoder's states, `(1 + slots, units)`, the first of them zero."""
        size, cell = ids.shape[1], self.encoder.gru.cell
        parameters = cell.parameters()

        def body(batch, pool):
            states = rows(pool, parents[batch] + 1, batches > 0)
            inputs = cell.project_inputs(self.encoder.embedding(ids[batch]))
            states, _ = cell.step.forward(inputs, states, parameters)
            return batch + 1, stored(pool, 1 + batch * size, states)

        pool = ops.zeros((1 + ids.shape[0] * size, cell.units), dtype=self.compute_dtype)
        return repeat(body, batches, pool)[0]
