"""Batches of sequences of like length, of few shapes."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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

    def limit(index):
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
