"""Log-probabilities of pairs of text, from a model directory."""

import dataclasses
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring.pair_scorer import NgramCounts, WordPair
from keras_encdec.scoring.scorer import Scorer
from keras_encdec.text import UNKNOWN


class TextScorer:
    """Scores pairs of words with the model of a directory, forward or reverse: a PairScorer.

    Source and target are the user's in both directions: a reverse model gives p(source | target).

    Args:
        directory: `ModelDirectory`, or the path of one.
        dtype: str. See `Scorer`.

    Raises:
        InputError: see `ModelDirectory.load`; for a directory that was loaded without its weights.
        ValueError: for another dtype.

    Example:

        scorer = TextScorer("model")
        scorer.score([scorer.words("open the file", "ouvrir le fichier")])
    """

    def __init__(self, directory: ModelDirectory | str | os.PathLike[str], dtype: str | None = None) -> None:
        self.directory = directory if isinstance(directory, ModelDirectory) else ModelDirectory.load(directory)
        if self.directory.model is None:
            raise InputError(
                "found a model directory without its weights",
                "expected them, to score with",
                "load it by ModelDirectory.load(path), with weights=True",
                self.directory.path,
            )
        self._scorer = Scorer(self.directory.model, dtype)

    def close(self) -> None:
        """See `Scorer.close`."""
        self._scorer.close()

    def words(self, source: str, target: str) -> WordPair:
        """A pair of lists of words from a pair of str, see `ModelDirectory.words`."""
        return self.all_words([(source, target)])[0]

    def all_words(self, pairs: Sequence[tuple[str, str]], factored: bool = False) -> list[WordPair]:
        """The words of a list of pairs of str, all at once.

        Args:
            pairs: list of pairs of str.
            factored: bool. See `ModelDirectory.words`. Defaults to `False`.

        Returns:
            list of pairs of lists of str.
        """
        words = self.directory.words([side for pair in pairs for side in pair], factored)
        return list(zip(words[::2], words[1::2], strict=True))

    def columns(self, pairs: Sequence[WordPair], names: Sequence[str]) -> list[Sequence[Any]]:
        """Several results of the same pairs.

        Args:
            pairs: list of `(source words, target words)`, lists of str.
            names: list of str, each "log_prob" (see `score`), "token_log_probs" (`token_scores`),
                "attention" (`attention`), "unknown_count" (`unknown_counts`) or "source_unknown_count", the same of
                the source.

        Returns:
            list of what those methods return, in the order of the names.
        """
        ids = self._ids(pairs)
        source, target = (1, 0) if self.directory.reverse else (0, 1)
        results = {
            "log_prob": self._scorer.score,
            "token_log_probs": self._scorer.token_scores,
            "unknown_count": lambda ids: [pair[target].count(UNKNOWN) for pair in ids],
            "source_unknown_count": lambda ids: [pair[source].count(UNKNOWN) for pair in ids],
        }
        if "attention" in names:  # at once with the scores
            tokens, attention = self._scorer.token_scores_with_attention(ids)
            results["attention"] = lambda _: attention
            results["token_log_probs"] = lambda _: tokens
            results["log_prob"] = lambda _: np.array([row.sum() for row in tokens])
        return [results[name](ids) for name in names]

    def score(self, pairs: Sequence[WordPair]) -> np.ndarray:
        """ln p of each pair, end of sequence included.

        Args:
            pairs: list of `(source words, target words)`, lists of str.

        Returns:
            float64 array `(n,)`, nats.

        Raises:
            ValueError: for text that is not taken apart into words.
        """
        return self.columns(pairs, ["log_prob"])[0]

    def token_scores(self, pairs: Sequence[WordPair]) -> list[np.ndarray]:
        """ln p of each predicted token of each pair, the end of sequence last: list of float64 arrays."""
        return self.columns(pairs, ["token_log_probs"])[0]

    @property
    def carries_attention(self) -> bool:
        """Whether the model has attention."""
        return self._scorer.carries_attention

    def attention(self, pairs: Sequence[WordPair]) -> list[np.ndarray]:
        """The weights by which each token that the model predicts attends to each that it reads.

        Args:
            pairs: list of `(source words, target words)`, lists of str.

        Returns:
            list of float32 arrays `(target tokens, source tokens)`, the ends of sequence counted; of a reverse model
            `(source tokens, target tokens)`.

        Raises:
            ValueError: for a model without attention.
        """
        return self.columns(pairs, ["attention"])[0]

    @property
    def ngram_counts(self) -> NgramCounts | None:
        """See `Scorer.ngram_counts`."""
        return self._scorer.ngram_counts

    def unknown_counts(self, pairs: Sequence[WordPair]) -> list[int]:
        """Number of target words outside the shortlist, of each pair: list of int.

        The paper's word penalty: to the network all these words are one, whose probability is that of
        all of them together, so that the score of a target that has them is too high.
        """
        return self.columns(pairs, ["unknown_count"])[0]

    def _ids(self, pairs):
        if text := next((side for pair in pairs for side in pair if isinstance(side, str)), None):
            raise ValueError(f"found the text {text!r}, expected a list of words, which TextScorer.words makes of it")
        read, predicted = self.directory.source_vocabulary, self.directory.target_vocabulary
        if self.directory.reverse:
            return [(read.encode(target), predicted.encode(source)) for source, target in pairs]
        return [(read.encode(source), predicted.encode(target)) for source, target in pairs]


class DryTextScorer(TextScorer):
    """A TextScorer without its model: words and ids are looked up, and every token is certain, ln p = 0.

    Args:
        directory: `ModelDirectory`, with or without weights.
    """

    def __init__(self, directory: ModelDirectory) -> None:
        self.directory = directory
        self._scorer = _DryScorer()


class _DryScorer:
    carries_attention, ngram_counts = True, None

    def close(self):
        pass

    def score(self, pairs):
        return np.zeros(len(pairs))

    def token_scores(self, pairs):
        return [np.zeros(len(target)) for _, target in pairs]

    def token_scores_with_attention(self, pairs):
        return self.token_scores(pairs), [np.zeros((len(target), len(source))) for source, target in pairs]


# A share above which the model is hardly one for the text. The shortlist of a training covers some nine tenths of its
# language's text and more; of another language little but the numbers, signs and names is known.
HIGH = 0.5


@dataclasses.dataclass(frozen=True)
class UnknownWords:
    """The words of one side of a file that are not in a model's shortlist.

    Attributes:
        model: str. What the model is to be called, such as "reverse model".
        side: str. "source" or "target", the user's.
        words: int. Words of the side.
        unknown: int. Those among them that the model does not know.

    Example:

    >>> print(UnknownWords("model", "source", words=2000, unknown=1500))
    source: 75.00 % of the 2,000 words are unknown to the model
    """

    model: str
    side: str
    words: int
    unknown: int

    @property
    def share(self) -> float:
        """Of the words, from 0 to 1."""
        return self.unknown / max(self.words, 1)

    @property
    def is_high(self) -> bool:
        """Whether most are unknown, as those of another language or of another tokenization are."""
        return self.share > HIGH

    def __str__(self) -> str:
        return f"{self.side}: {100 * self.share:.2f} % of the {self.words:,} words are unknown to the {self.model}"


class WordCountingScorer:
    """A PairScorer for one file: a TextScorer, and counts of the words of what it scores.

    Args:
        scorer: TextScorer.
        lent: bool. Whether the scorer stays open when this one is closed.
    """

    def __init__(self, scorer: TextScorer, lent: bool) -> None:
        self._scorer, self._lent = scorer, lent
        self.all_words, self.carries_attention = scorer.all_words, scorer.carries_attention
        self._ngrams_before = scorer.ngram_counts
        self._counts = {"source": (0, 0), "target": (0, 0)}
        self._lock = threading.Lock()

    def columns(self, pairs: Sequence[WordPair], names: Sequence[str]) -> list[Sequence[Any]]:
        """See `TextScorer.columns`."""
        *results, of_sources, of_targets = self._scorer.columns(
            pairs, [*names, "source_unknown_count", "unknown_count"]
        )
        added = {
            "source": (sum([len(source) for source, _ in pairs]), sum(of_sources)),
            "target": (sum([len(target) for _, target in pairs]), sum(of_targets)),
        }
        with self._lock:
            for side, (words, unknown) in added.items():
                self._counts[side] = self._counts[side][0] + words, self._counts[side][1] + unknown
        return results

    def close(self) -> None:
        """Closes the scorer, unless it is lent."""
        if not self._lent:
            self._scorer.close()

    def unknown_words(self) -> list[UnknownWords]:
        """The words that were unknown so far, of each side that the model reads."""
        directory = self._scorer.directory
        name = "reverse model" if directory.reverse else "model"
        sides = ["source", "target"] if len(directory.source_vocabulary) else ["target"]  # of a language model
        return [UnknownWords(name, side, *self._counts[side]) for side in sides]

    def ngram_counts(self) -> NgramCounts | None:
        """The n-grams of the file so far; `None` for a model without limited context."""
        counts = self._scorer.ngram_counts
        return counts and counts - self._ngrams_before
