"""Target text for source text, from model directories."""

import collections
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_encdec.decoding.generator import Generator
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search import Hypothesis
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.subwords import (
    GOES_ON,
    begin_with_marks,
    is_position_word,
    position_distance,
    stands_for_unknown,
    word_around,
    word_text,
    words_apart,
)
from keras_encdec.text.vocabulary import UNKNOWN_WORD, Vocabulary


class UnknownReplacement:
    """Replaces unknown words by the translation of the source word that they come from.

    A word "unkpos_d" at target position j comes from the source word at j - d, if the source has one there; any other
    unknown word from the source word that it attends to most. It becomes the dictionary's translation of this source
    word or, where there is none, the source word itself. It stays "<unk>" where a model without attention names no
    source word: "<unk>", "unkpos_null", and "unkpos_d" with j - d outside the source.

    Of text that was cut into subwords (by byte-pair encoding with "@@", or SentencePiece with "\u2581"), the whole
    source word counts, and stands as a word of its own: what is copied are all its pieces, separated by spaces.

    Args:
        dictionary: dict of source word to target word. Defaults to `None`: source words are copied.

    Example:

    >>> replacement = UnknownReplacement({"chat": "cat"})
    >>> replacement.replaced(["the", "<unk>", "<unk>"], ["le", "chat", "Tom"], np.eye(4))
    ['the', 'cat', 'Tom']
    >>> replacement.replaced(["the", "unkpos_0"], ["le", "chat"])
    ['the', 'cat']

    Reference:
        - Luong et al., 2015, "Addressing the Rare Word Problem in Neural Machine Translation" (arXiv 1410.8206)
        - Jean et al., 2015 (arXiv 1412.2007), section 3.3: by attention
    """

    def __init__(self, dictionary: Mapping[str, str] | None = None) -> None:
        self._dictionary = dict(dictionary or {})

    def replaced(
        self, words: Sequence[str], source_words: Sequence[str], attention: np.ndarray | None = None
    ) -> list[str]:
        """The target's words.

        Args:
            words: list of str, the target, "<unk>" for the unknown word.
            source_words: list of str, the source as it was given.
            attention: float array `(tokens, source_tokens)`, see `Hypothesis`. Optional.
        """
        positions = {j: self._source_position(j, word, source_words, attention) for j, word in enumerate(words)}
        found = {j: i for j, i in positions.items() if i is not None}
        replaced = [UNKNOWN_WORD if is_position_word(word) else word for word in words]
        for j, i in found.items():
            replaced[j] = self._translated(source_words, i)
        return words_apart(replaced, found, begin_with_marks(source_words))

    def _source_position(self, j, word, source_words, attention):
        """Where in the source an unknown word at j comes from; `None` of a known word, and where that is not known."""
        if not stands_for_unknown(word):
            return None
        distance = position_distance(word)
        if distance is not None and 0 <= j - distance < len(source_words):
            return j - distance
        if attention is not None and source_words:
            return int(np.argmax(attention[j, : len(source_words)]))  # of words: the end of sequence is none
        return None

    def _translated(self, source_words, i):
        pieces = word_around(source_words, i)
        text, copied = word_text(pieces), " ".join(pieces).removesuffix(GOES_ON)
        return self._dictionary.get(text) or self._dictionary.get(copied, copied)


class TextHypothesis(NamedTuple):
    """A target text that was generated.

    Attributes:
        words: list of str; "<unk>" stands for the unknown word.
        log_prob: float. ln p in nats, end of sequence included.
        score: float. What hypotheses are ranked by.
        count: int. How often it was drawn, of samples; else 1.
        source_words: list of str, of the source, read as the model reads them.
        attention: see `Hypothesis`.
    """

    words: list[str]
    log_prob: float
    score: float
    count: int
    source_words: list[str]
    attention: np.ndarray | None = None


class TextGenerator:
    """Generates target text with the model of a directory, or with several as an ensemble.

    A reverse model, which gives p(source | target), generates sources from targets.

    Args:
        directories: list of `ModelDirectory` or paths of such.
        weights: list of float. See `Ensemble`. Optional.
        average: str. See `Ensemble`. Defaults to "arithmetic".
        dtype: str. See `Generator`. Defaults to `None`: each model's own compute dtype.

    Raises:
        InputError: when the models do not read and predict the same words.

    Example:

        generator = TextGenerator(["model"])
        generator.generate(["open the file"], BeamSampler(12))
    """

    def __init__(
        self,
        directories: Sequence[str | os.PathLike[str] | ModelDirectory],
        weights: Sequence[float] | None = None,
        average: str = "arithmetic",
        dtype: str | None = None,
    ) -> None:
        self._directories = [ModelDirectory.open(directory) for directory in directories]
        self._first, *others = self._directories
        for other in others:
            _check_alike(self._first, other)
        self._generator = Generator([directory.model for directory in self._directories], weights, average, dtype)

    @property
    def has_source(self) -> bool:
        """Whether targets depend on a source; those of a language model do not."""
        return self._first.model.has_source

    @property
    def carries_attention(self) -> bool:
        """Whether one of the models has attention."""
        return any(directory.model.decoder.carries_attention for directory in self._directories)

    @property
    def has_position_words(self) -> bool:
        """Whether targets may have words that say where in the source an unknown word comes from."""
        return any(map(is_position_word, self._first.target_vocabulary.words))

    def generate(
        self,
        lines: Sequence[str],
        sampler: Sampler | str = "greedy",
        replacement: UnknownReplacement | None = None,
        with_attention: bool = False,
        **arguments: Any,
    ) -> list[list[TextHypothesis]]:
        """Generates.

        Args:
            lines: list of str, read as the model's training text was.
            sampler, with_attention, **arguments: see `Generator.generate`.
            replacement: UnknownReplacement. Defaults to `None`: unknown words stay "<unk>".

        Returns:
            list, for each line a list of distinct TextHypothesis, the best first.
        """
        read, predicted = self._first.source_vocabulary, self._first.target_vocabulary
        sources = self._first.words(lines)
        ids = [read.encode(words) for words in sources]
        attends = with_attention or replacement is not None and self.carries_attention
        results = self._generator.generate(ids, sampler, with_attention=attends, **arguments)
        return [
            _distinct(hypotheses, predicted, words, replacement)
            for words, hypotheses in zip(sources, results, strict=True)
        ]


def _distinct(
    hypotheses: Sequence[Hypothesis],
    vocabulary: Vocabulary,
    source_words: list[str],
    replacement: UnknownReplacement | None,
) -> list[TextHypothesis]:
    counts = collections.Counter(hypothesis.ids for hypothesis in hypotheses)
    distinct = {hypothesis.ids: hypothesis for hypothesis in hypotheses}.values()
    texts = []
    for ids, log_prob, score, attention in sorted(distinct, key=lambda hypothesis: -hypothesis.score):
        words = vocabulary.decode(ids)
        if replacement:
            words = replacement.replaced(words, source_words, attention)
        texts.append(TextHypothesis(words, log_prob, score, counts[ids], source_words, attention))
    return texts


def _check_alike(first: ModelDirectory, other: ModelDirectory) -> None:
    for what, value in {
        "source vocabulary": lambda directory: directory.source_vocabulary.words,
        "target vocabulary": lambda directory: directory.target_vocabulary.words,
        "tokenization": lambda directory: directory.tokenization,
        "direction": lambda directory: directory.reverse,
    }.items():
        if value(first) != value(other):
            raise InputError(
                f"found another {what} than in {first.path}",
                "expected the same in all models of an ensemble",
                "train them on the same data with the same --shortlist",
                other.path,
            )
