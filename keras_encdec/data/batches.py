"""Batches of pairs of like length, the same for the same seed."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_encdec.data.prepare import Ids, Indices, PreparedPairs

SORTED_TOGETHER = 10  # batches' worth of pairs that are sorted by length, as the paper's authors do
SHUFFLED_SINGLY = 1_000_000


def pad(sequences: Sequence[Sequence[int]], width: int | None = None) -> Ids:
    """Id sequences as one array: list of n lists of int to int32 `(n, width)`, padded with 0."""
    rows = np.zeros((len(sequences), width or max([1, *map(len, sequences)])), np.int32)
    for row, sequence in zip(rows, sequences, strict=True):
        row[: len(sequence)] = sequence
    return rows


class Batches:
    """An endless stream of training batches from prepared pairs.

    Every epoch draws every pair once, in another order. Of each ten batches' worth of pairs, those of
    like length come together, so that little is padding; the batches then follow in random order. All
    batches have the same number of pairs; what is left over at the end of an epoch, less than a batch,
    is left out of that epoch. The stream depends on the seed alone: one that starts later gives what
    the whole one would have given from there.

    Args:
        pairs: PreparedPairs.
        batch_size: int. Pairs in a batch; all the pairs if there are fewer.
        indices: range of positions to draw from. Defaults to all.
        seed: int. Defaults to `0`.
        widths: ascending list of int. Widths that rows are padded to, the least that fits, so that
            few shapes are compiled. Defaults to `None`: to the longest of the batch.
    """

    def __init__(
        self,
        pairs: PreparedPairs,
        batch_size: int,
        indices: range | None = None,
        seed: int = 0,
        widths: Sequence[int] | None = None,
    ) -> None:
        self.pairs = pairs
        self.indices = range(len(pairs)) if indices is None else indices
        self.batch_size = max(1, min(batch_size, len(self.indices)))
        self.updates_per_epoch = len(self.indices) // self.batch_size
        self._seed, self._widths = seed, widths

    def stream(self, first_update: int = 0) -> Iterator[dict[str, Ids]]:
        """Generates batches from an update on, counted from 0.

        Yields:
            dict: "source" `(batch_size, source_width)` and "target" `(batch_size, target_width)`, int32.
        """
        epoch, skipped = divmod(first_update, self.updates_per_epoch)
        while True:
            for update, indices in enumerate(self._epoch(epoch)):
                if update >= skipped:
                    yield self._batch(indices)
            epoch, skipped = epoch + 1, 0

    def once(self) -> list[dict[str, Ids]]:
        """A list of all pairs, in batches by length: what to evaluate on. Only the last may be short."""
        indices = self._by_length(np.arange(self.indices.start, self.indices.stop))
        return [self._batch(indices[i : i + self.batch_size]) for i in range(0, len(indices), self.batch_size)]

    def _epoch(self, epoch: int) -> Iterator[Indices]:
        """The indices of each batch of an epoch."""
        random = np.random.default_rng([self._seed, epoch])
        size, together = self.batch_size, self.batch_size * SORTED_TOGETHER
        order = self._order(random)
        whole = self.updates_per_epoch * size
        for start in range(0, whole, together):
            chunk = self._by_length(order(start, min(start + together, whole)))
            firsts = np.arange(0, len(chunk), size)
            random.shuffle(firsts)
            for first in firsts:
                yield chunk[first : first + size]

    def _order(self, random: np.random.Generator) -> Callable[[int, int], Indices]:
        """A random order of the indices, read by slices.

        Large sets are drawn in short runs of neighbours. They are in random order on disk already, and
        an order of each pair of 10^8 would take their number in memory.
        """
        total = len(self.indices)
        run = 1 + total // SHUFFLED_SINGLY
        runs = random.permutation(-(-total // run))
        if total % run:  # the short last run goes last, so that the others can be found by position
            last = len(runs) - 1
            runs = np.append(runs[runs != last], last)

        def slice_of(start: int, stop: int) -> Indices:
            position = np.arange(start, stop)
            return self.indices.start + runs[position // run] * run + position % run

        return slice_of

    def _by_length(self, indices: Indices) -> Indices:
        source, target = self.pairs.lengths[indices].T
        return indices[np.lexsort((source, target))]

    def _batch(self, indices: Indices) -> dict[str, Ids]:
        lengths = self.pairs.lengths[indices].max(axis=0)
        return self.pairs.padded(indices, *(self._width(int(length)) for length in lengths))

    def _width(self, length: int) -> int:
        return next((width for width in self._widths or () if width >= length), length)


# Sequences are padded to a multiple of this number of tokens, at least.
WIDTH_STEP = 8


class LengthBatch(NamedTuple):
    """Sequences that are computed together.

    Attributes:
        indices: list of int. Which sequences, the shortest first.
        rows: int. Rows of the batch, at least as many.
        width: int. Tokens that each is padded to.
    """

    indices: list[int]
    rows: int
    width: int


def length_batches(lengths: Sequence[int], most_rows: int, most_tokens: int) -> Iterator[LengthBatch]:
    """Groups sequences of like length into batches of nearly the same size, of few shapes.

    Each shape is compiled once, so rows and widths are rounded up, by an eighth at most, to few numbers. Long sequences
    are fewer together.

    Args:
        lengths: sequence of int, tokens of each sequence.
        most_rows: int. Rows of a batch, at most.
        most_tokens: int. Tokens of a batch, padding counted, at most, unless a single sequence has more.

    Yields:
        LengthBatch.
    """

    def limit(index: int) -> int:
        return min(most_rows, _power_below(max(1, most_tokens // _rounded(lengths[index], WIDTH_STEP))))

    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for most, group in itertools.groupby(order, limit):
        indices = list(group)
        size = -(-len(indices) // -(-len(indices) // most))
        for start in range(0, len(indices), size):
            batch = indices[start : start + size]
            yield LengthBatch(batch, min(_rounded(len(batch)), most), _rounded(lengths[batch[-1]], WIDTH_STEP))


def _rounded(number: int, step: int = 1) -> int:
    """A multiple of the step: one of few, and an eighth too large at most, or a step."""
    while 16 * step < number:
        step *= 2
    return -(-number // step) * step


def _power_below(number: int) -> int:
    return 1 << (number.bit_length() - 1)
