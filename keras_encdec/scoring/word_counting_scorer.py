"""A scorer that counts the words it does not know."""

import threading
from collections.abc import Sequence
from typing import Any

from keras_encdec.scoring.ngram_counts import NgramCounts
from keras_encdec.scoring.pair_scorer import WordPair
from keras_encdec.scoring.text_scorer import TextScorer
from keras_encdec.scoring.unknown_words import UnknownWords


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
