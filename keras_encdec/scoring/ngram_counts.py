"""How many of the n-grams of scored targets were distinct."""

import dataclasses
from typing import Self


@dataclasses.dataclass(frozen=True)
class NgramCounts:
    """The n-grams that a model of limited context has scored.

    Attributes:
        ngrams: int. Target tokens, ends of sequence included: an n-gram ends at each.
        distinct: int. Those that were computed; equal ones that were scored together are one.
        contexts: int. Distinct contexts of these, for each of which the sum over the vocabulary was computed once.

    Example:

    >>> print(NgramCounts(2000, 500, 400))
    2,000 n-grams, of which 500 were distinct (75.0 % shared), with 400 distinct contexts
    """

    ngrams: int = 0
    distinct: int = 0
    contexts: int = 0

    def __add__(self, other: Self) -> "NgramCounts":
        return NgramCounts(
            self.ngrams + other.ngrams, self.distinct + other.distinct, self.contexts + other.contexts
        )

    def __sub__(self, other: Self) -> "NgramCounts":
        return NgramCounts(
            self.ngrams - other.ngrams, self.distinct - other.distinct, self.contexts - other.contexts
        )

    def __str__(self) -> str:
        share = 100 * (1 - self.distinct / max(self.ngrams, 1))
        return (
            f"{self.ngrams:,} n-grams, of which {self.distinct:,} were distinct ({share:.1f} % shared), with "
            f"{self.contexts:,} distinct contexts"
        )
