"""Smooths the counts from which phrase probabilities are computed, as Moses's `consolidate` does.

In Moses's letters f is the source and e the target. Everything is computed in single precision, as in Moses.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from keras_encdec.configuration import check_choice
from keras_encdec.errors import InputError

SMOOTHINGS = ("none", "good_turing", "kneser_ney")
# Counts of counts are kept up to this count.
MAX_COUNTED = 10

Float32 = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class PhraseCounts:
    """Counts of phrase pairs: arrays with an entry for each pair.

    Attributes:
        joint: float32 array. How often the pair was extracted.
        source, target: float32 arrays. How often the source, or the target, of the pair was extracted.
        source_distinct, target_distinct: float32 arrays. Number of distinct pairs with that source, or target.
    """

    joint: Float32
    source: Float32
    target: Float32
    source_distinct: Float32
    target_distinct: Float32


class CountSmoothing:
    """Computes p(f|e) and p(e|f) from the counts of phrase pairs.

    - "none": relative frequencies (Koehn, Och and Marcu 2003).
    - "good_turing": counts r below 9 are multiplied by (r + 1) n_{r+1} / (r n_r), where n_r is 0.1 plus the number of
      pairs extracted r times. A factor is at most 1, and at least the factor of the next lower count.
    - "kneser_ney": modified absolute discounts D of the counts 1, 2 and above (Chen and Goodman 1998). The probability
      mass that they free for a source goes to targets in proportion to the number of distinct pairs that contain the
      target: p(e|f) = (c(f, e) - D + D n(f) n(e) / n) / c(f), where n(f) and n(e) count distinct pairs, and n is their
      total. p(f|e) is computed in the same way. The discounts are at most 0.9, 1.9 and 2.9.

    Args:
        name: str. One of `SMOOTHINGS`.
        counts_of_counts: list of int. Entry r is the number of pairs that were extracted r times, up to
            `MAX_COUNTED`; entry 0 is the number of all pairs.

    Raises:
        ConfigurationError: a ValueError, for another name.
        InputError: for Kneser-Ney, if no pair was extracted exactly once, exactly twice or exactly three times.

    Reference:
        - Foster, Kuhn and Johnson, 2006, "Phrasetable Smoothing for Statistical Machine Translation" (EMNLP)

    Example:

    >>> ones = np.ones(1, np.float32)
    >>> CountSmoothing("none", [9, 5, 3, 1]).probabilities(PhraseCounts(ones, 4 * ones, 2 * ones, ones, ones))
    (array([0.5], dtype=float32), array([0.25], dtype=float32))
    """

    def __init__(self, name: str, counts_of_counts: Sequence[int]) -> None:
        check_choice("smoothing", name, SMOOTHINGS)
        self._name, self._total = name, np.float32(counts_of_counts[0])
        pairs_by_count = np.zeros(MAX_COUNTED + 1, np.float32)
        given = counts_of_counts[1 : MAX_COUNTED + 1]
        pairs_by_count[1 : len(given) + 1] = given
        if name == "good_turing":
            self._factors = _good_turing_factors(pairs_by_count)
        elif name == "kneser_ney":
            self._discounts = _kneser_ney_discounts(pairs_by_count)

    def probabilities(self, counts: PhraseCounts) -> tuple[Float32, Float32]:
        """Computes p(f|e) and p(e|f) of phrase pairs: float32 arrays with an entry for each pair."""
        given_target = given_source = counts.joint
        if self._name == "good_turing":
            given_target = given_source = counts.joint * self._factor(counts.joint)
        elif self._name == "kneser_ney":
            discount = self._discounts[np.minimum(counts.joint, 3).astype(int)]
            # In the order of Moses's operations, so that results agree to the last digit.
            kept = counts.joint - discount
            free = discount * counts.source_distinct / counts.source
            given_source = kept + counts.source * free * (counts.target_distinct / self._total)
            free = discount * counts.target_distinct / counts.target
            given_target = kept + counts.target * free * (counts.source_distinct / self._total)
        return given_target / counts.target, given_source / counts.source

    def _factor(self, joint: Float32) -> Float32:
        kept = len(self._factors) - 1  # counts from here on are not discounted
        factors = self._factors[np.minimum(joint, kept).astype(int)]
        return np.where(joint < kept, factors, np.float32(1))


def _good_turing_factors(pairs_by_count: Float32) -> Float32:
    factors = [np.float32(0.01)]
    for count in range(1, MAX_COUNTED):
        factor = (count + 1) / count * ((float(pairs_by_count[count + 1]) + 0.1) / (float(pairs_by_count[count]) + 0.1))
        factors.append(max(np.float32(min(factor, 1)), factors[-1]))
    return np.array(factors, np.float32)


def _kneser_ney_discounts(pairs_by_count: Float32) -> Float32:
    for count in (1, 2, 3):
        if not pairs_by_count[count]:
            times = ("once", "twice", "three times")[count - 1]
            found = f"found no phrase pair that was extracted {times}"
            expected = "expected such pairs, from which Kneser-Ney smoothing estimates its discounts"
            raise InputError(found, expected, "give more text, or use another --smoothing")
    one, two, three, four = pairs_by_count[1:5]
    share = one / (one + 2 * two)
    discounts = [0, 1 - 2 * share * two / one, 2 - 3 * share * three / two, 3 - 4 * share * four / three]
    return np.minimum(np.array(discounts, np.float32), np.array([0, 0.9, 1.9, 2.9], np.float32))
