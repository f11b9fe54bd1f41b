"""Cross-entropies of sentence pairs in nats per token, by translation, language and n-gram models."""

import math
import os
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.formats.fields import split_tokens
from keras_encdec.scoring.text_scorer import ModelOrPath, TextScorer
from keras_encdec.selection.selection_options import SelectionOptions
from keras_encdec.smt.ngrams.ngram_model import NgramModel

TextPair = tuple[str, str]


class CrossEntropies(Protocol):
    """Computes cross-entropies of sentence pairs, in nats per token."""

    def __call__(self, pairs: Sequence[TextPair]) -> np.ndarray:
        """Returns the cross-entropies of pairs of source and target text: float array `(pairs,)`."""
        ...

    def close(self) -> None:
        """Cancels pending computations."""
        ...


class TranslationEntropies:
    """Cross-entropies of one side given the other: -ln p / tokens, including the end of sequence.

    In a truncated sentence, only the early end is improbable, and the mean over all tokens hides this. With
    `end_weight` w, the end counts as w tokens: (-ln p - (w - 1) ln p(end)) / (tokens + w - 1).

    Args:
        model: directory of a translation model, or a loaded ModelDirectory, or a TextScorer, which stays open.
        reverse: bool. Whether to expect a model of p(source | target). Defaults to `False`.
        flag: str. Name in error messages of the argument that gave the model. Defaults to "the model".
        end_weight: float. Number of tokens that the end of sequence counts as, more than 0 and at most 1,000. Defaults
            to `1.0`: the cross-entropy itself.

    Raises:
        ConfigurationError: a ValueError, for an `end_weight` out of bounds.
        InputError: for a directory that cannot be used, a language model, or a model of the other direction.
    """

    def __init__(
        self,
        model: ModelOrPath,
        reverse: bool = False,
        flag: str = "the model",
        end_weight: float = 1.0,
    ) -> None:
        end_weight = SelectionOptions(end_weight=end_weight).end_weight  # raises an error if it is out of bounds
        self._scorer = TextScorer.open(model)
        self._side, self._more = 0 if reverse else 1, end_weight - 1.0
        directory = self._scorer.directory
        if not directory.model.has_source:
            raise InputError("found a language model", "expected a translation model", f"check {flag}", directory.path)
        directory.check_direction(reverse, flag)

    def __call__(self, pairs: Sequence[TextPair]) -> np.ndarray:
        """See `CrossEntropies`."""
        words = self._scorer.all_words(pairs)
        tokens = _tokens(pair[self._side] for pair in words)
        if not self._more:
            entropies: np.ndarray = -self._scorer.score(words) / tokens
            return entropies
        log_probs = [each.sum() + self._more * each[-1] for each in self._scorer.token_scores(words)]
        return -np.array(log_probs, np.float64) / (tokens + self._more)

    def close(self) -> None:
        """See `CrossEntropies`."""
        self._scorer.close()


class LanguageModelEntropies:
    """Cross-entropies of one side by a language model: -ln p / tokens, including the end of sequence.

    Args:
        model: directory of a language model, or a loaded ModelDirectory, or a TextScorer, which stays open.
        side: str. "source" or "target".
        flag: str. Name in error messages of the argument that gave the model. Defaults to "the model".

    Attributes:
        path: path of the directory.
        vocabulary: list of str, the words of the model.

    Raises:
        InputError: for a directory that cannot be used, or a translation model.
    """

    def __init__(self, model: ModelOrPath, side: str, flag: str = "the model") -> None:
        self._scorer = TextScorer.open(model)
        self._side = ("source", "target").index(side)
        directory = self._scorer.directory
        if directory.model.has_source:
            raise InputError("found a translation model", "expected a language model", f"check {flag}", directory.path)
        self.path, self.vocabulary = directory.path, list(directory.target_vocabulary.words)

    def __call__(self, pairs: Sequence[TextPair]) -> np.ndarray:
        """See `CrossEntropies`."""
        words = self._scorer.all_words([("", pair[self._side]) for pair in pairs])
        entropies: np.ndarray = -self._scorer.score(words) / _tokens(sentence for _, sentence in words)
        return entropies

    def close(self) -> None:
        """See `CrossEntropies`."""
        self._scorer.close()


def _tokens(sentences: Iterable[Sequence[str]]) -> np.ndarray:
    """Counts the tokens of each sentence, including the end of sequence: float64 array `(sentences,)`."""
    return np.array([len(words) + 1 for words in sentences], np.float64)


class NgramEntropies:
    """Cross-entropies of one side by an n-gram model that KenLM reads: -ln p / tokens, including the end of sequence.

    Spaces and tabs separate the tokens, as in the text that the model was estimated from.

    Args:
        path: ARPA file, or a binary file of KenLM.
        side: str. "source" or "target".

    Raises:
        ImportError: if kenlm is not installed.
        InputError: if KenLM cannot read the file.

    Reference:
        - Heafield, 2011, "KenLM: Faster and Smaller Language Model Queries" (WMT, W11-2123)
    """

    def __init__(self, path: str | os.PathLike[str], side: str) -> None:
        self._side, self._model = ("source", "target").index(side), NgramModel(path)

    def __call__(self, pairs: Sequence[TextPair]) -> np.ndarray:
        """See `CrossEntropies`."""
        sentences = [split_tokens(pair[self._side]) for pair in pairs]
        log10 = np.array([self._model.score(words) for words in sentences])
        entropies: np.ndarray = log10 * -math.log(10) / _tokens(sentences)
        return entropies

    def close(self) -> None:
        """See `CrossEntropies`. This class has no pending computations."""
