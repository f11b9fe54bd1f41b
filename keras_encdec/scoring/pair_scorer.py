"""What writes scored files asks of a scorer, whether its model is here or on a server."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, Self

WordPair = tuple[Sequence[str], Sequence[str]]


class PairScorer(Protocol):
    """Scores pairs of words; `TextScorer` is one, the client's scorer another."""

    def all_words(self, pairs: Sequence[tuple[str, str]], factored: bool = False) -> list[WordPair]:
        """The words of pairs of text, as the model reads them.

        Args:
            pairs: list of `(source, target)`, str.
            factored: bool. Whether a bar in a word of text in tokens separates factors.

        Returns:
            list of `(source words, target words)`.
        """
        ...

    def columns(self, pairs: Sequence[WordPair], names: Sequence[str]) -> list[Sequence[Any]]:
        """Several results of the same pairs, computed together.

        Args:
            pairs: list of `(source words, target words)`.
            names: list of str, each "log_prob" (ln p of the target, end of sequence included, nats),
                "token_log_probs" (of each of its tokens, the end of sequence last), "unknown_count"
                (of target words outside the shortlist) or, of a scorer that can tell, "attention" (the weights by
                which each target token attends to each source token).

        Returns:
            list in the order of the names, each one result a pair: float, array `(tokens,)`, int, or array
            `(target tokens, source tokens)`.
        """
        ...

    def close(self) -> None:
        """Drops what is still to be computed: calls in other threads fail, and further ones."""
        ...


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
        return NgramCounts(self.ngrams + other.ngrams, self.distinct + other.distinct, self.contexts + other.contexts)

    def __sub__(self, other: Self) -> "NgramCounts":
        return NgramCounts(self.ngrams - other.ngrams, self.distinct - other.distinct, self.contexts - other.contexts)

    def __str__(self) -> str:
        share = 100 * (1 - self.distinct / max(self.ngrams, 1))
        return (
            f"{self.ngrams:,} n-grams, of which {self.distinct:,} were distinct ({share:.1f} % shared), with "
            f"{self.contexts:,} distinct contexts"
        )
