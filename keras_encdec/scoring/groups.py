"""Pairs cut into groups that one compiled call scores."""

import dataclasses
import math

import numpy as np

from keras_encdec.scoring.prefixes import PrefixTree
from keras_encdec.scoring.schedule import schedule

# Slots for states, which bound the memory of a call, and for sources.
SLOTS, SOURCES = 1 << 15, 1 << 12
# States computed together, and the longest sequence for which there are slots enough. A batch of 1024
# is the fastest a state; long sequences leave too few at each step to fill it.
LARGEST, SMALLEST, LONGEST = 1024, 64, 16


@dataclasses.dataclass
class Group:
    """The arguments of `Walk` for some pairs, and where in its results they are.

    Attributes:
        inputs: tuple of int32 arrays, the arguments.
        pairs: int array `(n,)`, which pairs.
        paths: int array `(n, width)`, the slots along each target, beginning with the empty prefix's.
        lengths: int array `(n,)`, of the targets.
    """

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


def groups(sources, source_lengths, places, targets, target_lengths):
    """Cuts pairs into groups, neighbouring sources together.

    Args:
        sources: int array `(m, width)`, the distinct sources, padded with 0.
        source_lengths: int array `(m,)`.
        places: int array `(n,)`, the source of each pair.
        targets: int array `(n, width)`, padded with 0.
        target_lengths: int array `(n,)`.

    Yields:
        Group.
    """
    rank = np.empty(len(sources), np.int64)
    rank[np.lexsort(sources.T[::-1])] = np.arange(len(sources))
    longest = np.maximum(source_lengths[places], target_lengths)
    sizes = np.maximum(1, LARGEST // 4 ** np.maximum(0, np.ceil(np.log2(longest / LONGEST) / 2)).astype(np.int64))
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        chosen = chosen[np.argsort(rank[places[chosen]], kind="stable")]
        first = np.ones(len(chosen), bool)
        first[1:] = places[chosen[1:]] != places[chosen[:-1]]
        needed = np.cumsum(
            [first, np.where(first, source_lengths[places[chosen]], 0), target_lengths[chosen]], axis=1
        )
        # A source that was begun in the group before is there once more.
        limits = np.array([SOURCES - 1, SLOTS - source_lengths.max(), SLOTS])
        for start, stop in cuts_within(needed, limits):
            yield from _group(sources, source_lengths, places, targets, target_lengths, chosen[start:stop], size)


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


def _group(sources, source_lengths, places, targets, target_lengths, pairs, size):
    """One group of some pairs; two if they need more slots than there are."""
    distinct, inside = np.unique(places[pairs], return_inverse=True)
    lengths = target_lengths[pairs]
    encoder = PrefixTree(sources[distinct, : source_lengths[distinct].max()], source_lengths[distinct])
    # A prefix of the decoder is the source and the words before the one that is predicted.
    rows = np.concatenate([inside[:, None], targets[pairs, : lengths.max() - 1]], axis=1)
    decoder = PrefixTree(rows, lengths)
    tallest = max(encoder.heights.max(), decoder.heights.max()) + 1
    size = int(size)
    while size > SMALLEST and max(len(encoder.ids), len(decoder.ids)) < size * tallest:
        size //= 4
    encoder_slots, encoder_batches = schedule(encoder.parents, encoder.heights, size)
    decoder_slots, decoder_batches = schedule(decoder.parents, decoder.heights, size)
    batches = max(SLOTS // size, _power(int(tallest)))
    if max(encoder_batches, decoder_batches) > batches:
        half = len(pairs) // 2
        for part in (pairs[:half], pairs[half:]):
            yield from _group(sources, source_lengths, places, targets, target_lengths, part, size)
        return

    def filled(values, slots, rows=batches, default=0):
        array = np.full(rows * size, default, np.int32)
        array[slots] = values
        return array.reshape(rows, size)

    def parents(tree, slots):
        return filled(np.where(tree.parents < 0, -1, slots[tree.parents]), slots, default=-1)

    roots = decoder.parents < 0
    node_sources = np.empty(len(decoder.ids), np.int64)
    node_sources[decoder.paths] = inside[:, None]
    lasts = encoder_slots[encoder.paths[np.arange(len(distinct)), source_lengths[distinct] - 1]]
    rows = max(SOURCES // size, 1)
    inputs = (
        filled(encoder.ids, encoder_slots),
        parents(encoder, encoder_slots),
        np.int32(encoder_batches),
        filled(lasts, np.arange(len(distinct)), rows),
        np.int32(-(-len(distinct) // size)),
        filled(np.where(roots, 0, decoder.ids), decoder_slots),
        parents(decoder, decoder_slots),
        filled(node_sources, decoder_slots),
        np.int32(decoder_batches),
    )
    yield Group(inputs, pairs, decoder_slots[decoder.paths], lengths)


def _power(number):
    return 1 << (number - 1).bit_length()
