"""The decoder over the prefix tree of many targets, every state computed once, as one compiled call."""

from typing import Any

import keras
from keras import ops

from keras_encdec.backend.log_sum_exp import log_sum_exp
from keras_encdec.backend.loops import counted_loop
from keras_encdec.backend.tables import store_rows, take_rows
from keras_encdec.models.decoder import Decoder
from keras_encdec.models.tensor_spec import TensorSpec
from keras_encdec.text.vocabulary import END


class PrefixTreeDecoder(keras.layers.Layer):
    """Goes through the tree of (source, target prefix), batch by batch of its nodes.

    It runs on a built decoder and has no weights of its own. The states of all nodes lie in tables, where each batch
    finds those of its parents; the memory has one row a source. All logits are taken as they are, without the maximum
    subtracted first, which saves a pass over them; `careful` subtracts it, for a sum that float32 cannot hold
    otherwise.

    Args:
        decoder: Decoder, a model's.
        careful: bool. Defaults to `False`.
        with_attention: bool. Whether the attention is returned, too, of a decoder that carries it. Defaults to `False`.

    Call arguments:
        previous: int32 tensor `(batches, size)`, the last word of each target prefix, 0 for the empty one, in an order
            in which each prefix follows its parent's batch.
        parents: int32 tensor `(batches, size)`: the slot of the parent, that is batch * size + column, or -1.
        sources: int32 tensor `(batches, size)`: the source of each prefix.
        batches: int32 scalar, how many of the batches are in use.
        state, memory: dicts of tensors, of the decoder's `start`, one row a source.

    Returns:
        float32 tensor `(3, batches * size)`, of each target prefix in nats: the logit of its last word after its
        parent, the logit of the end of sequence after it, and the logarithm of the sum of exp of all logits after it.
        With attention a tuple of it and the weights by which the word after each prefix is predicted,
        `(batches * size, source_time)`.
    """

    def __init__(self, decoder: Decoder, careful: bool = False, with_attention: bool = False) -> None:
        super().__init__(name="prefix_tree_decoder", dtype=decoder.dtype_policy)
        self.decoder = decoder
        self.careful = careful
        self.with_attention = with_attention
        self.built = True

    def call(
        self, previous: Any, parents: Any, sources: Any, batches: Any, state: dict[str, Any], memory: dict[str, Any]
    ) -> Any:
        state = self._in_dtypes(state, self.decoder.state_spec)
        memory = self._in_dtypes(memory, self.decoder.memory_spec)
        matrix, bias = map(ops.convert_to_tensor, self.decoder.output_weights)
        total = log_sum_exp(matrix, bias, self.careful)
        slots, size = previous.shape
        slots *= size
        # A decoder without a state, which sees the word before alone, needs no tables.
        roots = next((table.shape[0] for table in state.values()), 0)

        def body(batch, features_table, totals, states):
            # A root starts from its source's state; the tables have these first.
            source = sources[batch]
            rows = ops.where(parents[batch] < 0, source, parents[batch] + roots)
            state = {name: take_rows(table, rows) for name, table in states.items()}
            features, state = self.decoder.step(previous[batch], state, memory, source)
            return (
                store_rows(features_table, batch * size, features),
                store_rows(totals, batch * size, total(ops.cast(features, matrix.dtype))),
                {name: store_rows(table, roots + batch * size, state[name]) for name, table in states.items()},
            )

        def with_slots(first):
            return ops.concatenate([first, ops.zeros((slots, *first.shape[1:]), first.dtype)])

        tables = {name: with_slots(first) for name, first in state.items()}
        features, totals = ops.zeros((slots, matrix.shape[0]), "float32"), ops.zeros((slots,), "float32")
        features, totals, tables = counted_loop(body, batches, features, totals, tables)
        # After the loop: a table that is read and written in it would be copied at each turn.
        output, bias = ops.cast(ops.transpose(matrix), "float32"), ops.cast(bias, "float32")
        word, parent = ops.reshape(previous, (-1,)), ops.maximum(ops.reshape(parents, (-1,)), 0)
        before = ops.take(features, parent, axis=0)
        into = ops.sum(before * ops.take(output, word, axis=0), axis=-1) + ops.take(bias, word)
        end = ops.sum(features * output[END], axis=-1) + bias[END]
        results = ops.stack([into, end, totals])
        return (results, tables["attention"][roots:]) if self.with_attention else results

    def _in_dtypes(self, tensors: dict[str, Any], specs: dict[str, TensorSpec]) -> dict[str, Any]:
        return {name: ops.cast(tensors[name], spec.dtype or self.compute_dtype) for name, spec in specs.items()}
