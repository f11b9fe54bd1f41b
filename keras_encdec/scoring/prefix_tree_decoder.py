"""A decoder over the prefix tree of many targets, which computes every state once, in one compiled call."""

import keras
from keras import ops

from keras_encdec.backend.log_sums import log_sum_exp, word_logits
from keras_encdec.backend.loops import counted_loop
from keras_encdec.backend.operations import store_rows, take_rows
from keras_encdec.backend.types import Memory, State, Tensor
from keras_encdec.models.contract import Decoder, TensorSpec
from keras_encdec.models.word_tables import WordTables, looking_up, tables_of
from keras_encdec.text.vocabulary import END


class PrefixTreeDecoder(keras.layers.Layer):
    """Computes the decoder's state at each node of a prefix tree, batch by batch; a node is a source and a prefix.

    It wraps a built decoder and has no weights of its own. Tables hold the states of all nodes; each batch looks up the
    states of its parents in them. The memory has one row per source. The log-sum-exp of the logits is computed without
    subtracting their maximum, which saves a pass over them; `careful` subtracts it, for sums that float32 could not
    hold otherwise.

    Args:
        decoder: Decoder of a model.
        careful: bool. Defaults to `False`.
        with_attention: bool. Whether to return the attention, too. The decoder must have attention then. Defaults to
            `False`.
        with_logits: bool. Whether to return logits and their log-sum-exps; else, the features of the output layer, for
            `CandidateSums`. Defaults to `True`.

    Call arguments:
        previous: int32 tensor `(batches, size)`, the last word of each target prefix, 0 for an empty prefix. Each
            prefix is in a later batch than its parent.
        parents: int32 tensor `(batches, size)`: the slot of the parent, that is batch * size + column, or -1.
        sources: int32 tensor `(batches, size)`: the source of each prefix.
        batches: int32 scalar, how many of the batches are in use.
        state, memory: dicts of tensors from the decoder's `start`, one row per source.
        word_tables: word tables of the model, see `WordTableCache`; may be empty.
        spelled_slots: int32 tensor `(words,)`, the slots of prefixes after which a word is spelled, for a decoder with
            a `speller`. Defaults to `None`: no words.

    Returns:
        float32 tensor `(3, batches * size)`. For each target prefix, in nats: the logit of its last word after its
        parent, the logit of the end of sequence after it, and the log-sum-exp of all logits after it. Without logits,
        the features after each prefix, `(batches * size, feature_width)`, take the place of these. With attention, a
        tuple of this tensor and the weights by which the word after each prefix is predicted, `(batches * size,
        source_time)`. With `spelled_slots`, the last item of the tuple is the first states of the speller, float32
        `(words, speller.units)`.
    """

    def __init__(
        self, decoder: Decoder, careful: bool = False, with_attention: bool = False, with_logits: bool = True
    ) -> None:
        super().__init__(name="prefix_tree_decoder", dtype=decoder.dtype_policy)
        self.decoder = decoder
        self.careful = careful
        self.with_attention = with_attention
        self.with_logits = with_logits
        self.built = True

    def call(
        self,
        previous: Tensor,
        parents: Tensor,
        sources: Tensor,
        batches: Tensor,
        state: State,
        memory: Memory,
        word_tables: WordTables,
        spelled_slots: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        state = self._in_dtypes(state, self.decoder.state_spec)
        memory = self._in_dtypes(memory, self.decoder.memory_spec)
        # A decoder without a state, which sees only the previous word, needs no tables. A root starts from its source's
        # state: these are the first rows of the tables.
        roots = next((table.shape[0] for table in state.values()), 0)
        features, totals, tables = self._tables(previous, parents, sources, batches, state, roots, memory, word_tables)
        results = features
        if self.with_logits:
            logits = prefix_logits(*self._output_weights(), previous, parents, batches, features)
            results = ops.stack([*logits, totals])
        outputs = [results, *([tables["attention"][roots:]] if self.with_attention else [])]
        if spelled_slots is not None:
            rows = {name: take_rows(table, spelled_slots + roots) for name, table in tables.items()}
            source = ops.take(ops.reshape(sources, (-1,)), spelled_slots)
            outputs.append(ops.cast(self.decoder.spelling_state(rows, memory, source), "float32"))
        return tuple(outputs) if len(outputs) > 1 else results

    def _tables(
        self,
        previous: Tensor,
        parents: Tensor,
        sources: Tensor,
        batches: Tensor,
        state: State,
        roots: int,
        memory: Memory,
        word_tables: WordTables,
    ) -> tuple[Tensor, Tensor, State]:
        """Computes tables with a row for each slot.

        Returns:
            tuple: the features `(slots, width)`, the log-sum-exp of the logits `(slots,)`, and the states, after
            `roots` rows of first states.
        """
        matrix, bias = self._output_weights()
        total = log_sum_exp(matrix, bias, self.careful) if self.with_logits else None
        size = previous.shape[1]
        slots = previous.shape[0] * size

        def body(batch: Tensor, features_table: Tensor, totals: Tensor, states: State) -> tuple[Tensor, Tensor, State]:
            source = sources[batch]
            rows = ops.where(parents[batch] < 0, source, parents[batch] + roots)
            state = {name: take_rows(table, rows) for name, table in states.items()}
            with looking_up(self.decoder, tables_of(word_tables, 0, "decoder")):
                features, state = self.decoder.step(previous[batch], state, memory, source)
            if total is not None:
                totals = store_rows(totals, batch * size, total(ops.cast(features, matrix.dtype)))
            return (
                store_rows(features_table, batch * size, features),
                totals,
                {name: store_rows(table, roots + batch * size, state[name]) for name, table in states.items()},
            )

        def with_slots(first: Tensor) -> Tensor:
            return ops.pad(first, [[0, slots], *[[0, 0]] * (len(first.shape) - 1)])

        states = {name: with_slots(first) for name, first in state.items()}
        features, totals = ops.empty((slots, matrix.shape[0]), "float32"), ops.zeros((slots,), "float32")
        tables: tuple[Tensor, Tensor, State] = counted_loop(body, batches, features, totals, states)
        return tables

    def _output_weights(self) -> tuple[Tensor, Tensor]:
        matrix, bias = map(ops.convert_to_tensor, self.decoder.output_weights)
        return matrix, bias

    def _in_dtypes(self, tensors: dict[str, Tensor], specs: dict[str, TensorSpec]) -> dict[str, Tensor]:
        return {name: ops.cast(tensors[name], spec.dtype or self.compute_dtype) for name, spec in specs.items()}


def prefix_logits(
    matrix: Tensor, bias: Tensor, previous: Tensor, parents: Tensor, batches: Tensor, features: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes the logit of the last word of each prefix after its parent, and of the end of sequence after it.

    This is done after the loop over the states: a loop copies a table that it both reads and writes in each iteration.

    Args:
        matrix, bias: the output weights.
        previous, parents, batches: see `PrefixTreeDecoder`.
        features: float32 tensor `(slots, width)`, the features after each prefix.

    Returns:
        tuple of two float32 tensors `(slots,)`.
    """
    output, bias = ops.cast(ops.transpose(matrix), "float32"), ops.cast(bias, "float32")
    size = previous.shape[1]
    in_batches = ops.reshape(features, (-1, size, features.shape[-1]))

    def body(batch: Tensor, into: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        words, before = previous[batch], take_rows(features, ops.maximum(parents[batch], 0))
        new = word_logits(before, take_rows(output, words), ops.take(bias, words), matrix.dtype)
        end = word_logits(in_batches[batch], output[END], bias[END], matrix.dtype)
        return store_rows(into, batch * size, new), store_rows(ends, batch * size, end)

    zeros = ops.zeros(features.shape[:1], "float32")
    into, ends = counted_loop(body, batches, zeros, ops.zeros_like(zeros))
    return into, ends
