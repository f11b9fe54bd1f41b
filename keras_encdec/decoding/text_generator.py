"""Target text for source text, from model directories."""

import collections
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_encdec.decoding.generator import Generator
from keras_encdec.decoding.hypothesis import Hypothesis
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.unknown_replacement import UnknownReplacement
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.position_words import is_position_word
from keras_encdec.text.vocabulary import Vocabulary


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
    ) -> None:
        self._directories = [
            directory if isinstance(directory, ModelDirectory) else ModelDirectory.load(directory)
            for directory in directories
        ]
        self._first, *others = self._directories
        for other in others:
            _check_alike(self._first, other)
        self._generator = Generator([directory.model for directory in self._directories], weights, average)

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
                f"found another {what} than in {first.path}", "expected the same in all models of an ensemble",
                "train them on the same data with the same --shortlist", other.path,
            )  # fmt: skip
