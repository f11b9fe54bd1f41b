"""The prefix tree of many targets, and a decoder over it that computes every state once, in one compiled call."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.loops import counted_loop
from keras_encdec.backend.operations import log_sum_exp, store_rows, take_rows
from keras_encdec.backend.types import Memory, State, Tensor
from keras_encdec.models.contract import Decoder, TensorSpec
from keras_encdec.text.vocabulary import END


class PrefixTree:
    """A tree whose nodes are the distinct prefixes of many sequences.

    A recurrent network computes the same state for the same prefix. Each node is therefore one state, which is computed
    from its parent's.

    Args:
        rows: int array `(n, width)`, sequences padded at the end.
        lengths: int array `(n,)`, at least 1.

    Attributes:
        ids: int array `(nodes,)`, the last id of each prefix.
        parents: int array `(nodes,)`, the node of the prefix without its last id; -1 if this prefix is empty.
        heights: int array `(nodes,)`, steps from the node to the end of the longest sequence through it.
        paths: int array `(n, width)`, the nodes along each sequence, its last repeated beyond its end.
    """

    def __init__(self, rows: np.ndarray, lengths: np.ndarray) -> None:
        count, width = rows.shape
        order = np.lexsort(rows.T[::-1])
        rows, lengths = rows[order], lengths[order]
        new = np.ones((count, width), bool)
        new[1:] = np.logical_or.accumulate(rows[1:] != rows[:-1], axis=1)
        inside = np.arange(width) < lengths[:, None]
        new &= inside
        numbers = np.cumsum(new.ravel()).reshape(count, width) - 1
        # A prefix that is not new in its row is the prefix of the nearest row above where it is new.
        paths = np.maximum.accumulate(np.where(new, numbers, 0), axis=0)
        self.ids = rows[new]
        self.parents = np.concatenate([np.full((count, 1), -1), paths[:, :-1]], axis=1)[new]
        self.heights = np.zeros(len(self.ids), np.int64)
        for depth in range(width):
            first = np.flatnonzero(new[:, depth])
            if len(first):
                # The slices also contain rows after the last one of a prefix; these are shorter and change no maximum.
                self.heights[numbers[first, depth]] = np.maximum.reduceat(lengths, first) - 1 - depth
        self.paths = np.empty_like(paths)
        self.paths[order] = np.where(inside, paths, paths[np.arange(count), lengths - 1][:, None])


def assign_batches(parents: np.ndarray, heights: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """Assigns the nodes of a tree to batches of one size, every node to a later batch than its parent.

    Nodes with the longest path to a leaf go first, so that the last batches are full as well (Hu's rule).

    Args:
        parents: int array `(nodes,)`, -1 at a root.
        heights: int array `(nodes,)`, larger for a parent than for its children.
        size: int. Nodes per batch.

    Returns:
        tuple: int array `(nodes,)`, each node's slot, batch * size + its column there, and the number of batches.

    Reference:
        - Hu, 1961, "Parallel Sequencing and Assembly Line Problems"
    """
    # From here on a node is identified by its rank, the highest node first. Each batch looks only at the nodes whose
    # parents are assigned, so that the time is linear in the number of nodes, even for a single long sequence.
    order = np.argsort(-heights, kind="stable")
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order], ranks[-1] = np.arange(len(order)), -1
    parents = ranks[parents[order]]
    by_parent = np.argsort(parents, kind="stable")
    first = np.searchsorted(parents[by_parent], np.arange(len(order) + 1))
    slots = np.empty(len(order), np.int64)
    ready, batch = by_parent[: first[0]], 0
    while len(ready):
        chosen, ready = ready[:size], ready[size:]
        # Columns follow the order of the tree: prefixes of one source are neighbours, which share a look-up of its
        # memory.
        slots[np.sort(order[chosen])] = batch * size + np.arange(len(chosen))
        starts, counts = first[chosen], first[chosen + 1] - first[chosen]
        children = by_parent[np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
        ready = np.sort(np.concatenate([ready, children]), kind="stable")
        batch += 1
    return slots, batch


# Most and fewest states per batch, and the longest sequence for the largest batch. Batches of 1024 take the least time
# per state; long sequences have too few states at each step to fill them.
LARGEST_BATCH, SMALLEST_BATCH, LONGEST_OF_LARGEST = 1024, 64, 16
# With batches of one node, TensorFlow's XLA copies whole tables at every step, which takes 40 times as long.
FEWEST_NODES = 2


class NodeBatches:
    """The nodes of a tree in batches, every node in a later batch than its parent.

    Args:
        tree: PrefixTree.
        size: int. Maximum number of nodes per batch. Batches are smaller if the nodes would not fill them.
        slots: int. Slots of all batches together. A tree that needs more batches because of its height gets more.

    Attributes:
        size: int. Slots of a batch.
        slots: int array `(nodes,)`, each node's slot: batch * size + column.
        used: int. Number of batches that hold a node.
        room: int. Number of batches that fit into the slots.
    """

    def __init__(self, tree: PrefixTree, size: int, slots: int) -> None:
        tallest = int(tree.heights.max()) + 1
        while size > SMALLEST_BATCH and len(tree.ids) < size * tallest:
            size //= 4
        self.size = size
        self.slots, self.used = assign_batches(tree.parents, tree.heights, size)
        self.room = max(slots // size, _power(tallest))
        self._rows = max(self.room, _power(self.used))
        self._parents = tree.parents

    def filled(self, values: np.ndarray, default: int = 0) -> np.ndarray:
        """Returns the values of the nodes as int32 array `(batches, size)`, with the default in free slots."""
        array = np.full(self._rows * self.size, default, np.int32)
        array[self.slots] = values
        return array.reshape(self._rows, self.size)

    @property
    def parents(self) -> np.ndarray:
        """The slot of each node's parent, -1 at a root: int32 array `(batches, size)`."""
        return self.filled(np.where(self._parents < 0, -1, self.slots[self._parents]), default=-1)


def largest_batch(longest: int | np.ndarray) -> np.ndarray:
    """Returns the maximum number of nodes of a batch for sequences of this length: int or int array."""
    quarterings = np.maximum(0, np.ceil(np.log2(longest / LONGEST_OF_LARGEST) / 2)).astype(np.int64)
    return np.maximum(FEWEST_NODES, LARGEST_BATCH // 4**quarterings)


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


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

    Call arguments:
        previous: int32 tensor `(batches, size)`, the last word of each target prefix, 0 for an empty prefix. Each
            prefix is in a later batch than its parent.
        parents: int32 tensor `(batches, size)`: the slot of the parent, that is batch * size + column, or -1.
        sources: int32 tensor `(batches, size)`: the source of each prefix.
        batches: int32 scalar, how many of the batches are in use.
        state, memory: dicts of tensors from the decoder's `start`, one row per source.
        spelt: int32 tensor `(words,)`, the slots of prefixes after which a word is spelt, for a decoder with a
            `speller`. Defaults to `None`: no words.

    Returns:
        float32 tensor `(3, batches * size)`. For each target prefix, in nats: the logit of its last word after its
        parent, the logit of the end of sequence after it, and the log-sum-exp of all logits after it. With attention, a
        tuple of this tensor and the weights by which the word after each prefix is predicted, `(batches * size,
        source_time)`. With `spelt`, the last item of the tuple is the first states of the speller, float32 `(words,
        speller.units)`.
    """

    def __init__(self, decoder: Decoder, careful: bool = False, with_attention: bool = False) -> None:
        super().__init__(name="prefix_tree_decoder", dtype=decoder.dtype_policy)
        self.decoder = decoder
        self.careful = careful
        self.with_attention = with_attention
        self.built = True

    def call(
        self,
        previous: Tensor,
        parents: Tensor,
        sources: Tensor,
        batches: Tensor,
        state: State,
        memory: Memory,
        spelt: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        state = self._in_dtypes(state, self.decoder.state_spec)
        memory = self._in_dtypes(memory, self.decoder.memory_spec)
        matrix, bias = map(ops.convert_to_tensor, self.decoder.output_weights)
        total = log_sum_exp(matrix, bias, self.careful)
        slots, size = previous.shape
        slots *= size
        # A decoder without a state, which sees only the previous word, needs no tables.
        roots = next((table.shape[0] for table in state.values()), 0)

        def body(batch: Tensor, features_table: Tensor, totals: Tensor, states: State) -> tuple[Tensor, Tensor, State]:
            # A root starts from its source's state: these are the first rows of the tables.
            source = sources[batch]
            rows = ops.where(parents[batch] < 0, source, parents[batch] + roots)
            state = {name: take_rows(table, rows) for name, table in states.items()}
            features, state = self.decoder.step(previous[batch], state, memory, source)
            return (
                store_rows(features_table, batch * size, features),
                store_rows(totals, batch * size, total(ops.cast(features, matrix.dtype))),
                {name: store_rows(table, roots + batch * size, state[name]) for name, table in states.items()},
            )

        def with_slots(first: Tensor) -> Tensor:
            return ops.concatenate([first, ops.zeros((slots, *first.shape[1:]), first.dtype)])

        tables = {name: with_slots(first) for name, first in state.items()}
        features, totals = ops.zeros((slots, matrix.shape[0]), "float32"), ops.zeros((slots,), "float32")
        features, totals, tables = counted_loop(body, batches, features, totals, tables)
        # The logits are computed after the loop: a loop copies a table that it both reads and writes in each iteration.
        output, bias = ops.cast(ops.transpose(matrix), "float32"), ops.cast(bias, "float32")
        word, parent = ops.reshape(previous, (-1,)), ops.maximum(ops.reshape(parents, (-1,)), 0)
        before = ops.take(features, parent, axis=0)
        into = ops.sum(before * ops.take(output, word, axis=0), axis=-1) + ops.take(bias, word)
        end = ops.sum(features * output[END], axis=-1) + bias[END]
        results = ops.stack([into, end, totals])
        outputs = [results, *([tables["attention"][roots:]] if self.with_attention else [])]
        if spelt is not None:
            rows = {name: take_rows(table, spelt + roots) for name, table in tables.items()}
            source = ops.take(ops.reshape(sources, (-1,)), spelt)
            outputs.append(ops.cast(self.decoder.spelling_state(rows, memory, source), "float32"))
        return tuple(outputs) if len(outputs) > 1 else results

    def _in_dtypes(self, tensors: dict[str, Tensor], specs: dict[str, TensorSpec]) -> dict[str, Tensor]:
        return {name: ops.cast(tensors[name], spec.dtype or self.compute_dtype) for name, spec in specs.items()}


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
        spelling: float array `(n, width)`, ln p of the characters of each target word that is spelt, 0 for all others.
            Defaults to `None`: no word is spelt.
    """

    sources: np.ndarray
    source_lengths: np.ndarray
    inputs: tuple[np.ndarray | np.int32, ...]
    rows: int
    pairs: np.ndarray
    paths: np.ndarray
    lengths: np.ndarray
    spelling: np.ndarray | None = None

    def log_probs(self, results: np.ndarray) -> np.ndarray:
        """Computes token log-probabilities `(n, width)`, float64, 0 after the end, from the call's results."""
        into, end, total = results.astype(np.float64)
        last = np.arange(self.paths.shape[1]) == self.lengths[:, None] - 1
        after = np.concatenate([self.paths[:, 1:], self.paths[:, :1]], axis=1)
        log_probs = np.where(last, end[self.paths], into[after]) - total[self.paths]
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

    Yields:
        PairGroup.
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
        slots, most = room(int(source_lengths[source].max()))
        # A source whose pairs are in two groups counts in both.
        limits = np.array([max(1, most - 1), slots - source_lengths.max(), slots])
        for start, stop in cuts_within(needed, limits):
            yield from _groups(arrays, pairs[start:stop], int(size), slots, most)


def cuts_within(needed: np.ndarray, limits: np.ndarray) -> list[tuple[int, int]]:
    """Cuts pairs into parts of similar size, none of which needs more than the limits.

    Args:
        needed: int array `(resources, n)`, cumulative: the resources that all pairs up to each one need.
        limits: int array `(resources,)`.

    Returns:
        list of (start, stop).
    """

    def cuts(most: int) -> list[tuple[int, int]]:
        parts: list[tuple[int, int]] = []
        start, before = 0, np.zeros(len(limits), np.int64)
        while start < needed.shape[1]:
            stops = (np.searchsorted(row, limit, "right") for row, limit in zip(needed, before + limits, strict=True))
            stop = max(start + 1, min(*stops, start + most))
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
