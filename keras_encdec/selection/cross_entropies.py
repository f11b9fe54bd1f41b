"""Cross-entropies of sentence pairs in nats per token, by each kind of model."""

import itertools
import math
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from keras_encdec.errors import EncdecWarning, InputError, shown_path
from keras_encdec.formats.fields import split_tokens
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.runtime.files import is_file
from keras_encdec.scoring.text_scorer import ModelOrPath, TextScorer
from keras_encdec.selection.selection_options import TRANSLATION_MODELS, SelectionOptions
from keras_encdec.smt.ngrams.ngram_model import NgramModel, arpa_words
from keras_encdec.task_options import UnknownWordsOption
from keras_encdec.trained_model import check_direction, check_has_source, check_is_language_model

TextPair = tuple[str, str]


class CrossEntropies(Protocol):
    """Computes cross-entropies of sentence pairs, in nats per token."""

    def __call__(self, pairs: Sequence[TextPair]) -> np.ndarray:
        """Returns the cross-entropies of pairs of source and target text: float array `(pairs,)`."""

    def close(self) -> None:
        """Cancels pending computations."""


class TranslationEntropies:
    """Cross-entropies of one side given the other: -ln p / tokens, including the end of sequence.

    In a truncated sentence, only the early end is improbable, and the mean over all tokens hides this. With
    `end_weight` w, the end counts as w tokens: (-ln p - (w - 1) ln p(end)) / (tokens + w - 1).

    To a model, all unknown words are the same word, which it therefore finds probable. A pair gets nan if more than
    the share `max_unknown_in_pair` of the words of a side are unknown, unless the model reads or spells them by their
    characters. A pair with a side without words, or with more than `max_tokens`, is not scored, and gets nan, too. In
    raw text, a single no-break space has no words, and a row of dashes without spaces may have many.

    Args:
        model: directory of a translation model, or a loaded ModelDirectory, or a TextScorer, which stays open.
        reverse: bool. Whether to expect a model of p(source | target). Defaults to `False`.
        flag: str. What error messages call the argument that gave the model. Defaults to "the model".
        end_weight: float. Number of tokens that the end of sequence counts as, more than 0 and at most 1,000. Defaults
            to `1.0`: the cross-entropy itself.
        max_unknown: float. Maximum share of the words of a side, so far, that may be unknown to the model. Defaults to
            `None`: no limit.
        max_unknown_in_pair: float, from 0 to 1. Defaults to `0.5`.
        max_tokens: int. Maximum number of words on a side, as the model reads them. Defaults to `None`: no limit.

    Raises:
        ConfigurationError: a ValueError, for an `end_weight`, a `max_unknown_in_pair` or a `max_tokens` out of bounds.
        InputError: for a directory that cannot be used, a language model, or a model of the other direction.
    """

    def __init__(
        self,
        model: ModelOrPath,
        reverse: bool = False,
        flag: str = "the model",
        end_weight: float = 1.0,
        max_unknown: float | None = None,
        max_unknown_in_pair: float = SelectionOptions.max_unknown_in_pair,
        max_tokens: int | None = None,
    ) -> None:
        # Raises an error if one of them is out of bounds.
        options = SelectionOptions(
            end_weight=end_weight, max_unknown_in_pair=max_unknown_in_pair, max_tokens=max_tokens
        )
        end_weight, self._max_unknown_in_pair = options.end_weight, options.max_unknown_in_pair
        self._max_tokens = options.max_tokens
        self._limit = UnknownWordsOption(max_unknown=max_unknown)
        self._word_counts = np.zeros((2, 2), np.int64)  # of source and target: the words so far, the unknown among them
        self._lock = threading.Lock()
        self._scorer = TextScorer.open(model)
        # The end of sequence, which counts once, is given this weight in addition.
        self._predicted_side, self._extra_end_weight = 0 if reverse else 1, end_weight - 1.0
        directory = self._scorer.directory
        check_has_source(directory.model.has_source, directory.path, remedy=f"check {flag}")
        check_direction(directory, reverse, flag)

    def __call__(self, pairs: Sequence[TextPair]) -> np.ndarray:
        """See `CrossEntropies`."""
        words = self._scorer.all_words(pairs)
        counts = np.array([[len(pair[side]) for pair in words] for side in range(2)], np.int64)
        fits = _fits(counts, self._max_tokens)
        entropies = np.full(len(words), np.nan)
        entropies[fits] = self._of_words(list(itertools.compress(words, fits)), counts[:, fits])
        return entropies

    def _of_words(self, words: Sequence[WordPair], counts: np.ndarray) -> np.ndarray:
        """Returns the cross-entropies of pairs of words; `counts` is `(2, pairs)`."""
        scores = self._scorer.score_pairs(words, token_log_probs=bool(self._extra_end_weight), unknown_count=True)
        unknown = np.array([scores.source_unknown_count, scores.unknown_count], np.int64)
        self._check_unknown(counts, unknown)
        log_probs = scores.log_prob
        if self._extra_end_weight:
            log_probs = log_probs + [self._extra_end_weight * each[-1] for each in scores.token_log_probs]
        # The words of the predicted side, and the end.
        entropies = -log_probs / (counts[self._predicted_side] + 1 + self._extra_end_weight)
        without_characters = np.array([[each.characters is None] for each in self._scorer.directory.user_vocabularies])
        is_unknown = np.any(without_characters & (unknown / np.maximum(counts, 1) > self._max_unknown_in_pair), axis=0)
        return np.where(is_unknown, np.nan, entropies)

    def _check_unknown(self, counts: np.ndarray, unknown: np.ndarray) -> None:
        """Raises InputError if too many words so far are unknown to the model; both arrays are `(2, pairs)`."""
        with self._lock:
            self._word_counts += np.stack([counts.sum(axis=1), unknown.sum(axis=1)], axis=1)
            so_far = self._word_counts.tolist()
        model = shown_path(self._scorer.directory.path)
        for side, (number, unknown_number) in zip(("source", "target"), so_far, strict=True):
            self._limit.check_unknown(side, number, unknown_number, model)

    def close(self) -> None:
        """See `CrossEntropies`."""
        self._scorer.close()


class LanguageModelEntropies:
    """Cross-entropies of one side by a language model: -ln p / tokens, including the end of sequence.

    A side without words, or with more than `max_tokens`, see `TranslationEntropies`, gets nan.

    Args:
        model: directory of a language model, or a loaded ModelDirectory, or a TextScorer, which stays open.
        side: str. "source" or "target".
        flag: str. What error messages call the argument that gave the model. Defaults to "the model".
        max_tokens: int. Maximum number of words, as the model reads them. Defaults to `None`: no limit.

    Attributes:
        path: path of the directory.
        vocabulary: list of str, the words of the model.

    Raises:
        InputError: for a directory that cannot be used, or a translation model.
    """

    def __init__(self, model: ModelOrPath, side: str, flag: str = "the model", max_tokens: int | None = None) -> None:
        self._scorer = TextScorer.open(model)
        self._side, self._max_tokens = ("source", "target").index(side), max_tokens
        directory = self._scorer.directory
        check_is_language_model(directory.model.has_source, directory.path, flag)
        self.path, self.vocabulary = directory.path, list(directory.target_vocabulary.words)

    def __call__(self, pairs: Sequence[TextPair]) -> np.ndarray:
        """See `CrossEntropies`."""
        words = self._scorer.all_words([("", pair[self._side]) for pair in pairs])
        tokens = _token_counts(sentence for _, sentence in words)
        fits = _fits(tokens[None] - 1, self._max_tokens)
        entropies = np.full(len(words), np.nan)
        entropies[fits] = -self._scorer.score(list(itertools.compress(words, fits))) / tokens[fits]
        return entropies

    def close(self) -> None:
        """See `CrossEntropies`."""
        self._scorer.close()


def _fits(counts: np.ndarray, max_tokens: int | None) -> np.ndarray:
    """Returns whether each side has 1 to `max_tokens` words, for counts `(sides, pairs)`: bool array `(pairs,)`."""
    limit = math.inf if max_tokens is None else max_tokens
    fits: np.ndarray = np.logical_and.reduce((counts > 0) & (counts <= limit))
    return fits


def _token_counts(sentences: Iterable[Sequence[str]]) -> np.ndarray:
    """Counts the tokens of each sentence, including the end of sequence: float64 array `(sentences,)`."""
    return np.array([len(words) + 1 for words in sentences], np.float64)


class NgramEntropies:
    """Cross-entropies of one side by an n-gram model that KenLM reads: -ln p / tokens, including the end of sequence.

    Spaces and tabs separate the tokens, as in the text that the model was estimated from.

    Args:
        path: ARPA file, or a binary file of KenLM.
        side: str. "source" or "target".
        encoding: str. Encoding of an ARPA file. Defaults to `None`: UTF-8.

    Raises:
        ImportError: if kenlm is not installed.
        InputError: if KenLM cannot read the file.

    Reference:
        - Heafield, 2011, "KenLM: Faster and Smaller Language Model Queries" (WMT, W11-2123)
    """

    def __init__(self, path: str | os.PathLike[str], side: str, encoding: str | None = None) -> None:
        self._side, self._model = ("source", "target").index(side), NgramModel(path, encoding)

    def __call__(self, pairs: Sequence[TextPair]) -> np.ndarray:
        """See `CrossEntropies`."""
        sentences = [split_tokens(pair[self._side]) for pair in pairs]
        log10 = np.array([self._model.score(words) for words in sentences])
        entropies: np.ndarray = log10 * -math.log(10) / _token_counts(sentences)
        return entropies

    def close(self) -> None:
        """See `CrossEntropies`. This class has no pending computations."""


def open_entropies(
    names: Sequence[str], models: Mapping[str, ModelOrPath], options: SelectionOptions
) -> Iterator[CrossEntropies]:
    """Opens each model, in the order of the names, and yields the object that computes its cross-entropies.

    Args:
        names: list of str, the names of the models, such as "model_dir".
        models: dict from name to model, see `select_pairs`.
        options: SelectionOptions.

    Raises:
        ImportError: if kenlm is needed and is not installed.
        InputError: if a model cannot be used, or the language models of a side have different vocabularies. If one of
            these is an n-gram model in an ARPA file, different vocabularies only cause a warning.
    """
    vocabularies: dict[str, list[str]] = {}
    words_of_side: dict[str, frozenset[str]] = {}  # those of its first model
    for name in names:
        flag, model, side = f"--{name}", models[name], name.rpartition("_")[2]
        if name in TRANSLATION_MODELS:
            limits = options.max_unknown, options.max_unknown_in_pair, options.max_tokens
            yield TranslationEntropies(model, name.startswith("reverse"), flag, options.end_weight, *limits)
        elif isinstance(model, str | os.PathLike) and is_file(model):
            read = arpa_words(model) or ()
            words = frozenset(word.decode(options.encoding or "utf-8", "surrogateescape") for word in read)
            if words and words_of_side.setdefault(side, words) != words:
                _warn_of_vocabularies(side)
            yield NgramEntropies(model, side, options.encoding)
        else:
            entropies = LanguageModelEntropies(model, side, flag, options.max_tokens)
            if entropies.vocabulary != vocabularies.setdefault(side, entropies.vocabulary):
                found = f"found a vocabulary that differs from that of --in_domain_{side}"
                expected = "expected the same vocabulary, because the probabilities are compared"
                raise InputError(found, expected, "train both with the same --target_vocabulary", entropies.path)
            words = frozenset(["<s>", "</s>", "<unk>", *entropies.vocabulary])
            if words_of_side.setdefault(side, words) != words:
                _warn_of_vocabularies(side)
            yield entropies


def _warn_of_vocabularies(side: str) -> None:
    message = (
        f"found different words in the models --in_domain_{side} and --general_{side}, expected one vocabulary: "
        "a model with few words finds unknown words more probable, and lines full of them may be selected first; "
        "estimate both with encdec-ngram --vocabulary=FILE --min_count=2, where FILE is the text of the domain; if one "
        "of them is a trained model in a DIRECTORY, estimate the other with --vocabulary=DIRECTORY/target.vocab."
    )
    warnings.warn(EncdecWarning(message), stacklevel=3)
