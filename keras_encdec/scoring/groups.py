"""Pairs cut into groups that one compiled call scores."""

import dataclasses
import math

import numpy as np

from keras_encdec.scoring.batches import Batches, largest_batch
from keras_encdec.scoring.prefixes import PrefixTree


@dataclasses.dataclass
class Group:
    """The arguments of `Walk` for some pairs, and where in its results they are.

    Attributes:
        sources: int array `(m, width)`, the distinct sources of these pairs, padded with 0.
        source_lengths: int array `(m,)`.
        inputs: tuple of int32 arrays, the arguments but for what the decoder starts with.
        pairs: int array `(n,)`, which pairs.
        paths: int array `(n, width)`, the slots along each target, beginning with the empty prefix's.
        lengths: int array `(n,)`, of the targets.
    """

    sources: np.ndarray
    source_lengths: np.ndarray
    inputs: tuple
    pairs: np.ndarray
    paths: np.ndarray
    lengths: np.ndarray

    def log_probs(self, results):
        """Token log-probabilities `(n, width)`, float64, 0 after the end, from what `Walk` returns."""
        into, end, total = results.astype(np.float64)
        last = np.arange(self.paths.shape[1]) == self.lengths[:, None] - 1
        after = np.concatenate([self.paths[:, 1:], self.paths[:, :1]], axis=1)
        log_probs = np.where(last, end[self.paths], into[after]) - total[self.paths]
        return np.where(np.arange(self.paths.shape[1]) < self.lengths[:, None], log_probs, 0.0)


def groups(sources, source_lengths, places, targets, target_lengths, slots, most):
    """Cuts pairs into groups, neighbouring sources together.

    Args:
        sources: int array `(m, width)`, the distinct sources, padded with 0.
        source_lengths: int array `(m,)`.
        places: int array `(n,)`, the source of each pair.
        targets: int array `(n, width)`, padded with 0.
        target_lengths: int array `(n,)`.
        slots: int. States of a group, on either side, which bound the memory of a call.
        most: int. Sources of a group.

    Yields:
        Group.
    """
    rank = np.empty(len(sources), np.int64)
    rank[np.lexsort(sources.T[::-1])] = np.arange(len(sources))
    sizes = largest_batch(np.maximum(source_lengths[places], target_lengths))
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        chosen = chosen[np.argsort(rank[places[chosen]], kind="stable")]
        first = np.ones(len(chosen), bool)
        first[1:] = places[chosen[1:]] != places[chosen[:-1]]
        needed = np.cumsum(
            [first, np.where(first, source_lengths[places[chosen]], 0), target_lengths[chosen]], axis=1
        )
        # A source that was begun in the group before is there once more.
        limits = np.array([most - 1, slots - source_lengths.max(), slots])
        for start, stop in cuts_within(needed, limits):
            some = chosen[start:stop]
            yield from _group(sources, source_lengths, places, targets, target_lengths, slots, some, int(size))


def cuts_within(needed, limits):
    """Where to cut pairs so that no part needs more than there is, into parts of about one size.

    Args:
        needed: int array `(resources, n)`, what the pairs up to each need together.
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


def _group(sources, source_lengths, places, targets, target_lengths, slots, pairs, size):
    """One group of some pairs; two if they need more slots than there are."""
    distinct, inside = np.unique(places[pairs], return_inverse=True)
    lengths = target_lengths[pairs]
    # A prefix is the source and the words before the one that is predicted.
    prefixes = np.concatenate([inside[:, None], targets[pairs, : lengths.max() - 1]], axis=1)
    tree = PrefixTree(prefixes, lengths)
    batches = Batches(tree, size, slots)
    if batches.used > batches.room:
        half = len(pairs) // 2
        for part in (pairs[:half], pairs[half:]):
            yield from _group(sources, source_lengths, places, targets, target_lengths, slots, part, size)
        return
    node_sources = np.empty(len(tree.ids), np.int64)
    node_sources[tree.paths] = inside[:, None]
    inputs = (
        batches.filled(np.where(tree.parents < 0, 0, tree.ids)),
        batches.parents,
        batches.filled(node_sources),
        np.int32(batches.used),
    )
    lengths_there = source_lengths[distinct]
    there = sources[distinct, : lengths_there.max()]
    yield Group(there, lengths_there, inputs, pairs, batches.slots[tree.paths], lengths)
