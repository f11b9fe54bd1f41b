"""Batches of pairs of similar length, in an order that depends on the seed alone."""

import collections
import functools
import itertools
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_encdec.data.prepared_pairs import Ids, Indices, PreparedPairs
from keras_encdec.data.rare_word_batches import RareWordBatches

# Number of batches whose pairs are sorted by length together, as in the code of the paper's authors.
SORTED_TOGETHER = 10
# Maximum number of pairs that are shuffled one by one; more are shuffled in runs of neighbours.
SHUFFLED_SINGLY = 1_000_000
# A batch whose shape occurs in less than this share of the first updates is padded to a frequent shape: compiling a
# step for a rare shape takes as long as dozens of updates.
RARE_SHAPE, COUNTED_UPDATES = 0.01, 1000


def pad(sequences: Sequence[Sequence[int]], width: int | None = None) -> Ids:
    """Pads sequences of ids with 0 to one width.

    Args:
        sequences: list of n lists of int.
        width: int. Defaults to the length of the longest sequence, at least 1.

    Returns:
        int32 array `(n, width)`.

    Raises:
        ValueError: for a list of ids in place of a list of such lists, for an item that is not a whole number below
            2**31, and for a sequence longer than the width.
    """
    if not all(map(np.iterable, sequences)):
        raise ValueError(f"found {reprlib.repr(sequences)}, expected a list of lists of ids")
    lengths = [*map(len, sequences)]
    longest = max([1, *lengths])
    if width is not None and width < longest:
        raise ValueError(f"found a sequence of {longest} ids, expected at most width={width}")
    ids = _array_of_ids(itertools.chain.from_iterable(sequences))
    if ids is None:
        wrong = next(sequence for sequence in sequences if _array_of_ids(sequence) is None)
        raise ValueError(f"found {reprlib.repr(wrong)}, expected ids, whole numbers below 2**31")
    rows = np.zeros((len(sequences), width or longest), np.int32)
    rows[np.arange(rows.shape[1]) < np.array(lengths, int)[:, None]] = ids
    return rows


def _array_of_ids(items: Iterable[int]) -> np.ndarray | None:
    """Returns an array of whole numbers that int32 holds; `None` if an item is something else."""
    try:
        ids = np.array(list(items) or np.zeros(0, int))
    except ValueError:  # some items are sequences
        return None
    return ids if ids.ndim == 1 and ids.dtype.kind in "biu" and abs(ids).max(initial=0) < 2**31 else None


class Batches:
    """An endless stream of training batches from prepared pairs.

    Every epoch draws every pair once, in a new random order. The pairs of ten batches are sorted by length together, so
    that batches need little padding, and the ten batches follow in random order. All batches have the same number of
    pairs. The pairs at the end of an epoch that do not fill a batch are left out of that epoch. The stream depends on
    the seed alone: a stream that starts at a later update gives the same batches as one that has reached it.

    The first epoch begins with the largest batch of its first updates, so that too large a batch fails at the first
    update. With `widths`, a batch of each other shape follows, so that everything is compiled at the beginning.

    Args:
        pairs: PreparedPairs.
        batch_size: int. Number of pairs in a batch; all pairs if there are fewer.
        indices: range of the indices of the pairs to draw from. Defaults to all pairs.
        seed: int. Defaults to `0`.
        widths: ascending list of int. Rows are padded to the smallest of these widths that fits, so that few shapes are
            compiled; batches of a rare shape are padded to the next frequent one. Defaults to `None`: rows are padded
            to the longest of the batch.
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
        """Yields batches without end.

        Args:
            first_update: int. The update to start at, from 0. Defaults to `0`.

        Yields:
            dict: "source" `(batch_size, source_width)` and "target" `(batch_size, target_width)`, int32; on sides with
            characters also those of the rare words, see `RareWordBatches`.
        """
        epoch, skipped = divmod(first_update, self.updates_per_epoch)
        while True:
            for update, indices in enumerate(self._epoch(epoch) if epoch else self._first_epoch()):
                if update >= skipped:
                    yield self._batch(indices)
            epoch, skipped = epoch + 1, 0

    def once(self) -> list[dict[str, Ids]]:
        """Returns all pairs in batches by length, for evaluation. Only the last batch may have fewer pairs."""
        indices = self._by_length(np.arange(self.indices.start, self.indices.stop))
        return [self._batch(indices[i : i + self.batch_size]) for i in range(0, len(indices), self.batch_size)]

    def _epoch(self, epoch: int) -> Iterator[Indices]:
        random = np.random.default_rng([self._seed, epoch])
        size, together = self.batch_size, self.batch_size * SORTED_TOGETHER
        order = self._order(random)
        used = self.updates_per_epoch * size
        for start in range(0, used, together):
            chunk = self._by_length(order(start, min(start + together, used)))
            firsts = np.arange(0, len(chunk), size)
            random.shuffle(firsts)
            for first in firsts:
                yield chunk[first : first + size]

    def _first_epoch(self) -> Iterator[Indices]:
        """Yields the batches of the first epoch, with large ones in front, so that a lack of memory shows at once.

        With widths, one batch of each shape among the first updates comes first, the largest shape in front: of the
        batches of a shape, the one that is longest before padding. Without widths, only the batch of the largest shape
        is moved to the front.
        """
        shapes = list(map(self._widths_of, self._first_batches))
        lengths = [int(self.pairs.lengths[indices].max(axis=0).sum()) for indices in self._first_batches]
        by_shape: dict[tuple[int, int], int] = {}
        for index in sorted(range(len(shapes)), key=lambda index: (-sum(shapes[index]), -lengths[index])):
            by_shape.setdefault(shapes[index], index)
        leading = list(by_shape.values())[: None if self._widths else 1]
        for index in dict.fromkeys([*leading, *range(len(shapes))]):
            yield self._first_batches[index]
        yield from itertools.islice(self._epoch(0), COUNTED_UPDATES, None)

    def _order(self, random: np.random.Generator) -> Callable[[int, int], Indices]:
        """Returns a function that returns a slice, from start to stop, of a random order of the indices.

        Large sets are drawn in short runs of neighbours, which are in random order on disk already. An order of 10^8
        single pairs would take too much memory.
        """
        total = len(self.indices)
        run = 1 + total // SHUFFLED_SINGLY
        runs = random.permutation(-(-total // run))
        if total % run:  # the shorter last run goes last, so that the others can be found by position
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
        batch = self.pairs.padded(indices, *self._widths_of(indices), bool(self.pairs.spellings))
        return self._rare_words(batch) if self._rare_words else batch

    @functools.cached_property
    def _rare_words(self) -> RareWordBatches | None:
        """The object that adds the characters of rare words, in arrays of few shapes if shapes are compiled."""
        if not self.pairs.spellings:
            return None
        if not self._widths:
            return RareWordBatches(self.pairs)
        return RareWordBatches(self.pairs, ((indices, self._widths_of(indices)) for indices in self._first_batches))

    def _widths_of(self, indices: Indices) -> tuple[int, int]:
        """Returns the widths of source and target of a batch: those of a frequent shape if one fits."""
        widths = self._least_widths(indices)
        if not self._widths:
            return widths
        holding = (each for each in self._frequent_widths if each[0] >= widths[0] and each[1] >= widths[1])
        return next(holding, widths)

    @functools.cached_property
    def _frequent_widths(self) -> list[tuple[int, int]]:
        """The widths of source and target that are frequent in the first updates, the smallest first."""
        counts = collections.Counter(map(self._least_widths, self._first_batches))
        return sorted((each for each in counts if counts[each] >= RARE_SHAPE * counts.total()), key=sum)

    @functools.cached_property
    def _first_batches(self) -> list[Indices]:
        """The indices of the first batches, whose shapes are counted to find the frequent ones."""
        return list(itertools.islice(self._epoch(0), COUNTED_UPDATES))

    def _least_widths(self, indices: Indices) -> tuple[int, int]:
        source, target = self.pairs.lengths[indices].max(axis=0).tolist()
        return self._width(source), self._width(target)

    def _width(self, length: int) -> int:
        return next((width for width in self._widths or () if width >= length), length)


# Sequences are padded to a multiple of this number of tokens.
WIDTH_STEP = 8


class LengthBatch(NamedTuple):
    """Sequences that are computed together.

    Attributes:
        indices: list of int. The indices of the sequences, the shortest first.
        rows: int. Number of rows of the batch, at least the number of sequences.
        width: int. Number of tokens to which each sequence is padded.
    """

    indices: list[int]
    rows: int
    width: int


def length_batches(lengths: Sequence[int], max_rows: int, max_tokens: int) -> Iterator[LengthBatch]:
    """Groups sequences of similar length into batches of nearly the same size and few shapes.

    Each shape is compiled once, so rows and widths are rounded up to few different numbers: rows by an eighth at most,
    widths to a multiple of 8, and by an eighth at most if they are above 64. Batches of long sequences have fewer rows.

    Args:
        lengths: sequence of int. Number of tokens of each sequence.
        max_rows: int. Maximum number of rows of a batch.
        max_tokens: int. Maximum number of tokens of a batch, including padding. A longer sequence is a batch of its
            own.
    """

    def limit(index: int) -> int:
        return min(max_rows, _power_below(max(1, max_tokens // _rounded(lengths[index], WIDTH_STEP))))

    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for most, group in itertools.groupby(order, limit):
        indices = list(group)
        size = -(-len(indices) // -(-len(indices) // most))
        for start in range(0, len(indices), size):
            batch = indices[start : start + size]
            yield LengthBatch(batch, min(_rounded(len(batch)), most), _rounded(lengths[batch[-1]], WIDTH_STEP))


def _rounded(number: int, step: int = 1) -> int:
    """Rounds a number up, in coarser steps for larger numbers, so that few different results are possible.

    The result is a multiple of `step`. It exceeds the number by less than a step, or by an eighth of it at most.
    """
    while 16 * step < number:
        step *= 2
    return -(-number // step) * step


def _power_below(number: int) -> int:
    """Returns the largest power of 2 that is not larger than the number."""
    return 1 << (number.bit_length() - 1)
