"""A decoder over the prefix tree of many targets, which computes every state once, in one compiled call."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.log_sums import log_sum_exp, word_logits
from keras_encdec.backend.loops import counted_loop
from keras_encdec.backend.operations import store_rows, take_rows
from keras_encdec.backend.types import Memory, State, Tensor
from keras_encdec.models.contract import Decoder, TensorSpec
from keras_encdec.models.word_tables import WordTables, looking_up, tables_of
from keras_encdec.scoring.prefix_tree import NodeBatches, PrefixTree, largest_batch
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


@dataclasses.dataclass
class PairGroup:
    """The arguments of `PrefixTreeDecoder` for the pairs of a group, and the positions of the pairs in its results.

    Attributes:
        sources: int array `(m, width)`, the distinct sources of these pairs, padded with 0.
        source_lengths: int array `(m,)`.
        inputs: tuple of int32 arrays, the arguments except the state and the memory.
        rows: int. Number of rows of the state and the memory, at least m.
        pairs: int array `(n,)`, the indices of the pairs.
        paths: int array `(n, width)`, the slots along each target, beginning with the empty prefix's.
        lengths: int array `(n,)`, the length of each target.
        spelling: float array `(n, width)`, ln p of the characters of each target word that is spelled, 0 for all
            others. Defaults to `None`: no word is spelled.
        candidates: list of int arrays, the ids that may follow in the targets of each source. Defaults to none: all.
        outside: boolean array `(n, width)`, which target words are not among the candidates of their source, and are
            therefore added to the sum by which they are divided. Defaults to `None`: none.
    """

    sources: np.ndarray
    source_lengths: np.ndarray
    inputs: tuple[np.ndarray | np.int32, ...]
    rows: int
    pairs: np.ndarray
    paths: np.ndarray
    lengths: np.ndarray
    spelling: np.ndarray | None = None
    candidates: Sequence[np.ndarray] = ()
    outside: np.ndarray | None = None

    def limit_to(self, candidates: Sequence[np.ndarray], targets: np.ndarray) -> None:
        """Limits the words that may follow.

        Args:
            candidates: list of int arrays, the candidates of each pair in ascending order; pairs of a source have the
                same ones.
            targets: int array `(n, at least width)`, the ids of the targets, padded with 0.
        """
        source = np.ravel(self.inputs[2])[self.paths[:, 0]]
        _, first = np.unique(source, return_index=True)
        self.candidates = [candidates[pair] for pair in first]
        ids = 1 + max(int(targets.max()), *(int(words[-1]) for words in self.candidates))
        allowed = np.concatenate([words + number * ids for number, words in enumerate(self.candidates)])
        words = targets[:, : self.paths.shape[1]] + source[:, None] * ids
        self.outside = allowed[np.minimum(np.searchsorted(allowed, words), len(allowed) - 1)] != words

    def log_probs(self, results: np.ndarray) -> np.ndarray:
        """Computes token log-probabilities `(n, width)`, float64, 0 after the end, from the call's results."""
        into, end, total = results.astype(np.float64)
        last = np.arange(self.paths.shape[1]) == self.lengths[:, None] - 1
        after = np.concatenate([self.paths[:, 1:], self.paths[:, :1]], axis=1)
        logits, totals = np.where(last, end[self.paths], into[after]), total[self.paths]
        if self.outside is not None:
            totals = np.where(self.outside, np.logaddexp(totals, logits), totals)
        log_probs = logits - totals
        if self.spelling is not None:
            log_probs = log_probs + self.spelling
        return np.where(np.arange(self.paths.shape[1]) < self.lengths[:, None], log_probs, 0.0)


def cut_into_groups(
    sources: np.ndarray,
    source_lengths: np.ndarray,
    source_of_pair: np.ndarray,
    targets: np.ndarray,
    target_lengths: np.ndarray,
    room: Callable[[int], tuple[int, int]],
) -> Iterator[PairGroup]:
    """Cuts pairs into groups, neighbouring sources together.

    Args:
        sources: int array `(m, width)`, the distinct sources, padded with 0.
        source_lengths: int array `(m,)`.
        source_of_pair: int array `(n,)`, the source of each pair.
        targets: int array `(n, width)`, padded with 0.
        target_lengths: int array `(n,)`.
        room: callable that takes the length of the longest source, and returns the maximum number of states of a group,
            on each side, and the maximum number of its sources. They bound the memory of a call.
    """
    arrays = _PairArrays(sources, source_lengths, source_of_pair, targets, target_lengths)
    rank = np.empty(len(sources), np.int64)
    rank[np.lexsort(sources.T[::-1])] = np.arange(len(sources))
    sizes = largest_batch(np.maximum(source_lengths[source_of_pair], target_lengths))
    for size in np.unique(sizes):
        pairs = np.flatnonzero(sizes == size)
        pairs = pairs[np.argsort(rank[source_of_pair[pairs]], kind="stable")]
        source = source_of_pair[pairs]
        first = np.ones(len(pairs), bool)
        first[1:] = source[1:] != source[:-1]
        needed = np.cumsum([first, np.where(first, source_lengths[source], 0), target_lengths[pairs]], axis=1)
        longest = int(source_lengths[source].max())
        slots, max_sources = room(longest)
        # A source whose pairs are in two groups counts in both.
        limits = np.array([max(1, max_sources - 1), slots - longest, slots])
        for start, stop in cuts_within(needed, limits):
            yield from _groups(arrays, pairs[start:stop], int(size), slots, max_sources)


def cuts_within(needed: np.ndarray, limits: np.ndarray) -> list[tuple[int, int]]:
    """Cuts pairs into parts of similar size, none of which needs more than the limits.

    Args:
        needed: int array `(resources, n)`, cumulative: the resources that all pairs up to each one need.
        limits: int array `(resources,)`.

    Returns:
        list of (start, stop).
    """

    def cuts(max_pairs: int) -> list[tuple[int, int]]:
        parts: list[tuple[int, int]] = []
        start, before = 0, np.zeros(len(limits), np.int64)
        while start < needed.shape[1]:
            stops = (np.searchsorted(row, limit, "right") for row, limit in zip(needed, before + limits, strict=True))
            stop = max(start + 1, min(*stops, start + max_pairs))
            parts.append((start, stop))
            before, start = needed[:, stop - 1], stop
        return parts

    # If every part were as full as possible, the last would be small, and its batches mostly empty.
    count = len(cuts(needed.shape[1]))
    while len(parts := cuts(math.ceil(needed.shape[1] / count))) > count:
        count += 1
    return parts


class _PairArrays(NamedTuple):
    """The arrays of all pairs, see `cut_into_groups`."""

    sources: np.ndarray
    source_lengths: np.ndarray
    source_of_pair: np.ndarray
    targets: np.ndarray
    target_lengths: np.ndarray


def _groups(arrays: _PairArrays, pairs: np.ndarray, size: int, slots: int, rows: int) -> Iterator[PairGroup]:
    """Yields one group of the given pairs, or two if one would need too many slots."""
    distinct, source = np.unique(arrays.source_of_pair[pairs], return_inverse=True)
    lengths = arrays.target_lengths[pairs]
    # A prefix is the source and the words before the one that is predicted.
    prefixes = np.concatenate([source[:, None], arrays.targets[pairs, : lengths.max() - 1]], axis=1)
    tree = PrefixTree(prefixes, lengths)
    batches = NodeBatches(tree, size, slots)
    if batches.used > batches.room:
        half = len(pairs) // 2
        for part in (pairs[:half], pairs[half:]):
            yield from _groups(arrays, part, size, slots, rows)
        return
    node_sources = np.empty(len(tree.ids), np.int64)
    node_sources[tree.paths] = source[:, None]
    inputs = (
        batches.filled(np.where(tree.parents < 0, 0, tree.ids)),
        batches.parents,
        batches.filled(node_sources),
        np.int32(batches.used),
    )
    lengths_here = arrays.source_lengths[distinct]
    sources_here = arrays.sources[distinct, : lengths_here.max()]
    yield PairGroup(sources_here, lengths_here, inputs, rows, pairs, batches.slots[tree.paths], lengths)
