"""What writes scored files asks of a scorer, whether its model is here or on a server."""

from collections.abc import Sequence
from typing import Any, Protocol

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
