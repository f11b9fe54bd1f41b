"""Groups of pairs that one call of `PrefixTreeDecoder` scores."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_encdec.scoring.prefix_tree import NodeBatches, PrefixTree, largest_batch


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
