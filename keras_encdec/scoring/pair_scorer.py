"""Scores of pairs of source and target words: the interface of scorers, their results, and the counts in summaries."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol, Self

import numpy as np

from keras_encdec.formats.pair_format import WordPair
from keras_encdec.runtime.progress import counted
from keras_encdec.runtime.settings_files import Json
from keras_encdec.task_options import HIGH_UNKNOWN_SHARE


@dataclasses.dataclass(frozen=True)
class PairScores:
    """The scores of a list of pairs, one of each kind per pair; a kind that was not requested is empty.

    Attributes:
        log_prob: float64 array `(pairs,)`, ln p of each target, the end of sequence included, nats.
        token_log_probs: list of float64 arrays `(target tokens,)`, ln p of each token, the end of sequence last.
        unknown_count: list of int, target words outside the shortlist: the paper's word penalty. The network sees all
            unknown words as one word, which has the sum of their probabilities, so that the score of a target with
            unknown words is too high.
        source_unknown_count: list of int, source words outside the shortlist. Requested together with
            `unknown_count`; empty if the scorer cannot count them.
        attention: list of float32 arrays `(target tokens, source tokens)`, the weights by which each target token
            attends to each source token, the ends of sequence included. For a reverse model, which predicts the
            source: `(source tokens, target tokens)`.
    """

    log_prob: np.ndarray
    token_log_probs: Sequence[np.ndarray] = ()
    unknown_count: Sequence[int] = ()
    source_unknown_count: Sequence[int] = ()
    attention: Sequence[np.ndarray] = ()


class PairScorer(Protocol):
    """Scores pairs of source and target words: `TextScorer` with a model, `ServedScorer` through a server.

    `DryScorer` computes nothing.
    """

    def all_words(self, pairs: Sequence[tuple[str, str]], factored: bool = False) -> list[WordPair]:
        """Splits pairs of text into words, as the model reads them.

        Args:
            pairs: list of `(source, target)`, str.
            factored: bool. Whether the pairs are from a phrase table or an n-best list, see `ModelDirectory.words`.
                Defaults to `False`.

        Returns:
            list of `(source words, target words)`, lists of str.
        """

    def score_pairs(
        self,
        pairs: Sequence[WordPair],
        *,
        token_log_probs: bool = False,
        unknown_count: bool = False,
        attention: bool = False,
    ) -> PairScores:
        """Scores pairs. It may be called from several threads.

        Args:
            pairs: list of `(source words, target words)`.
            token_log_probs: bool. Whether to return ln p of each target token. Defaults to `False`.
            unknown_count: bool. Whether to count the words outside the shortlist. Defaults to `False`.
            attention: bool. Whether to return the attention. Defaults to `False`.

        Raises:
            ValueError: if attention is requested and the model has none.
        """

    def close(self) -> None:
        """Cancels pending computations: calls in other threads fail, and so do later ones."""


# Share of all words that suggests text in another letter case. A smaller share may consist of names.
MIN_LOWER_CASE_SHARE = 0.01


@dataclasses.dataclass(frozen=True)
class UnknownWords:
    """How many of the words on one side of a file are unknown to a model, that is, outside its shortlist.

    Attributes:
        model: str. What messages call the model, such as "reverse model".
        side: str. "source" or "target", as the user names the sides.
        words: int. Words of the side.
        unknown: int. Words among them that are outside the model's shortlist.
        has_characters: bool. Whether the model reads or spells these words by their characters. Defaults to `False`.
        in_lower_case: int. Words among the unknown ones that the model knows in lower case, see
            `Vocabulary.known_in_lower_case`. Defaults to `0`.

    Example:

    >>> print(UnknownWords("model", "source", words=2000, unknown=1500))
    source: 75.00 % of the 2,000 words are unknown to the model
    """

    model: str
    side: str
    words: int
    unknown: int
    has_characters: bool = False
    in_lower_case: int = 0

    def __add__(self, other: Self) -> "UnknownWords":
        counts = {name: getattr(self, name) + getattr(other, name) for name in ("words", "unknown", "in_lower_case")}
        return dataclasses.replace(self, **counts)

    @property
    def share(self) -> float:
        """The share of unknown words, from 0 to 1."""
        return self.unknown / max(self.words, 1)

    @property
    def is_high(self) -> bool:
        """Whether most words are unknown, which suggests text of another language, tokenization or case."""
        return self.share > HIGH_UNKNOWN_SHARE and not self.has_characters

    def warnings(self, results: str, check: str) -> list[str]:
        """Returns a list with a warning if the unknown words suggest text that the model was not trained for.

        Args:
            results: str. What the model computes, such as "scores".
            check: str. What the user is to check first, such as "the language of the file".
        """
        enough = max(self.unknown / 2, MIN_LOWER_CASE_SHARE * self.words)
        if not self.has_characters and self.in_lower_case > enough:
            return [
                f"warning: most of the {self.side} words that the {self.model} does not know have capital letters, and "
                "it knows them in lower case; lowercase the text, as the training text was."
            ]
        if self.is_high:
            return [
                f"warning: most of the {self.side} words are unknown to the {self.model}, so its {results} mean "
                f"little; check {check}, its letter case, and how its text is tokenized."
            ]
        return []

    def __str__(self) -> str:
        verb = "is" if self.words == 1 else "are"
        share = f"{self.side}: {100 * self.share:.2f} % of the {counted(self.words, 'words')} {verb}"
        if self.has_characters:
            return f"{share} known to the {self.model} by their characters alone"
        return f"{share} unknown to the {self.model}"


@dataclasses.dataclass(frozen=True)
class NgramCounts:
    """The number of n-grams that a model of limited context has scored.

    Attributes:
        ngrams: int. Target tokens, ends of sequence included: an n-gram ends at each.
        distinct: int. N-grams that were computed; equal n-grams that were scored together count once.
        contexts: int. Distinct contexts of the computed n-grams. The sum over the vocabulary is computed once for each.

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


@dataclasses.dataclass(frozen=True)
class ScoreCounts:
    """The counts in the summary of a file, or of a part of it.

    Attributes:
        malformed: int. Malformed lines.
        too_long: int. Lines with more than `max_tokens` tokens.
        unknown_words: tuple of UnknownWords, one for each side and model.
        ngrams: tuple of NgramCounts, one for each model of limited context.
        last_problem: str. A sentence about the last malformed line; empty if there is none.
    """

    malformed: int = 0
    too_long: int = 0
    unknown_words: tuple[UnknownWords, ...] = ()
    ngrams: tuple[NgramCounts, ...] = ()
    last_problem: str = ""

    def __add__(self, other: Self) -> "ScoreCounts":
        words = (a + b for a, b in zip(self.unknown_words, other.unknown_words, strict=True))
        ngrams = (a + b for a, b in zip(self.ngrams, other.ngrams, strict=True))
        return ScoreCounts(
            self.malformed + other.malformed,
            self.too_long + other.too_long,
            tuple(words),
            tuple(ngrams),
            other.last_problem or self.last_problem,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> "ScoreCounts":
        """Makes the counts from a dict that `dataclasses.asdict` made from them."""
        words = tuple(UnknownWords(**each) for each in values["unknown_words"])
        ngrams = tuple(NgramCounts(**each) for each in values["ngrams"])
        return cls(values["malformed"], values["too_long"], words, ngrams, values["last_problem"])
