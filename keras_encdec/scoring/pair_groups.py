"""Pairs cut into groups that one compiled call scores."""

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

from keras_encdec.scoring.node_batches import NodeBatches, largest_batch
from keras_encdec.scoring.prefix_tree import PrefixTree


@dataclasses.dataclass
class PairGroup:
    """The arguments of `PrefixTreeDecoder` for the pairs of a group, and where in its results they are.

    Attributes:
        sources: int array `(m, width)`, the distinct sources of these pairs, padded with 0.
        source_lengths: int array `(m,)`.
        inputs: tuple of int32 arrays, the arguments but for the state and the memory.
        rows: int. Sources that there may be, at least m: rows of the state and the memory.
        pairs: int array `(n,)`, the indices of the pairs.
        paths: int array `(n, width)`, the slots along each target, beginning with the empty prefix's.
        lengths: int array `(n,)`, of the targets.
    """

    sources: np.ndarray
    source_lengths: np.ndarray
    inputs: tuple
    rows: int
    pairs: np.ndarray
    paths: np.ndarray
    lengths: np.ndarray

    def log_probs(self, results: np.ndarray) -> np.ndarray:
        """Token log-probabilities `(n, width)`, float64, 0 after the end, from what `PrefixTreeDecoder` returns."""
        into, end, total = results.astype(np.float64)
        last = np.arange(self.paths.shape[1]) == self.lengths[:, None] - 1
        after = np.concatenate([self.paths[:, 1:], self.paths[:, :1]], axis=1)
        log_probs = np.where(last, end[self.paths], into[after]) - total[self.paths]
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
        room: callable from the length of the longest source to how many states a group may have, on either side, and
            how many sources: they bound the memory of a call.

    Yields:
        PairGroup.
    """
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
        # A source that was begun in the group before is there once more.
        limits = np.array([max(1, most - 1), slots - source_lengths.max(), slots])
        for start, stop in cuts_within(needed, limits):
            yield from _groups(
                sources, source_lengths, source_of_pair, targets, target_lengths,
                slots, most, pairs[start:stop], int(size),
            )  # fmt: skip


def cuts_within(needed: np.ndarray, limits: np.ndarray) -> list[tuple[int, int]]:
    """Where to cut pairs so that no part needs more than there is, into parts of about one size.

    Args:
        needed: int array `(resources, n)`, what the pairs up to each one need together.
        limits: int array `(resources,)`.

    Returns:
        list of (start, stop).
    """

    def cuts(most):
        found, start, before = [], 0, np.zeros(len(limits), np.int64)
        while start < needed.shape[1]:
            stops = (np.searchsorted(row, limit, "right") for row, limit in zip(needed, before + limits, strict=True))
            stop = max(start + 1, min(*stops, start + most))
            found.append((start, stop))
            before, start = needed[:, stop - 1], stop
        return found

    # As full as can be, the last part is small, and its batches are mostly empty.
    parts = len(cuts(needed.shape[1]))
    while len(found := cuts(math.ceil(needed.shape[1] / parts))) > parts:
        parts += 1
    return found


def _groups(
    sources, source_lengths, source_of_pair, targets, target_lengths, slots, rows, pairs, size
):  # fmt: skip
    """One group of the given pairs; two if they need more slots than there are."""
    distinct, source = np.unique(source_of_pair[pairs], return_inverse=True)
    lengths = target_lengths[pairs]
    # A prefix is the source and the words before the one that is predicted.
    prefixes = np.concatenate([source[:, None], targets[pairs, : lengths.max() - 1]], axis=1)
    tree = PrefixTree(prefixes, lengths)
    batches = NodeBatches(tree, size, slots)
    if batches.used > batches.room:
        half = len(pairs) // 2
        for part in (pairs[:half], pairs[half:]):
            yield from _groups(
                sources, source_lengths, source_of_pair, targets, target_lengths, slots, rows, part, size
            )
        return
    node_sources = np.empty(len(tree.ids), np.int64)
    node_sources[tree.paths] = source[:, None]
    inputs = (
        batches.filled(np.where(tree.parents < 0, 0, tree.ids)),
        batches.parents,
        batches.filled(node_sources),
        np.int32(batches.used),
    )
    lengths_here = source_lengths[distinct]
    sources_here = sources[distinct, : lengths_here.max()]
    yield PairGroup(sources_here, lengths_here, inputs, rows, pairs, batches.slots[tree.paths], lengths)
