"""Scores by length and by frequency."""

import dataclasses
from collections.abc import Sequence

import numpy as np

# Bins of fewer pairs say nothing, and are left out where there are others.
FEWEST_PAIRS = 10
# Longer ones are counted together.
LONGEST = 60


@dataclasses.dataclass(frozen=True)
class BinnedScores:
    """ln p a token, by something else of the pairs.

    Attributes:
        keys: list of float. Where each bin begins: a length, or a frequency.
        counts: list of int. Pairs of each bin.
        quartiles: float64 array `(bins, 3)`. Nats a token.
    """

    keys: list[float]
    counts: list[int]
    quartiles: np.ndarray


def scores_by_length(lengths: Sequence[int], scores: np.ndarray) -> BinnedScores:
    """A bin for each length.

    Args:
        lengths: list of n int, words.
        scores: float array `(n,)`, ln p a token.
    """
    return _binned(np.minimum(np.asarray(lengths), LONGEST), scores)


def scores_by_frequency(frequencies: Sequence[float], scores: np.ndarray) -> BinnedScores:
    """Bins of 1, 2 to 3, 4 to 7 and so on, each named by where it begins.

    Args:
        frequencies: list of n float, 1 or more.
        scores: float array `(n,)`, ln p a token.

    Example:

    >>> scores_by_frequency([1, 3, 2, 5], np.array([-1.0, -2.0, -4.0, -1.0])).keys
    [1.0, 2.0, 4.0]
    """
    return _binned(2.0 ** np.floor(np.log2(np.asarray(frequencies, np.float64))), scores)


def _binned(keys, scores):
    distinct, counts = np.unique(keys, return_counts=True)
    if (counts >= FEWEST_PAIRS).any():
        distinct, counts = distinct[counts >= FEWEST_PAIRS], counts[counts >= FEWEST_PAIRS]
    quartiles = [np.percentile(scores[keys == key], (25, 50, 75)) for key in distinct]
    return BinnedScores(distinct.tolist(), counts.tolist(), np.array(quartiles).reshape(-1, 3))
