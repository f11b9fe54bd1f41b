"""Target text for source text, from model directories."""

import collections
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_encdec.decoding.generator import Generator
from keras_encdec.decoding.hypothesis import Hypothesis
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.vocabulary import Vocabulary


class TextHypothesis(NamedTuple):
    """A target text that was generated.

    Attributes:
        words: list of str; "<unk>" stands for the unknown word.
        log_prob: float. ln p in nats, end of sequence included.
        score: float. What hypotheses are ranked by.
        count: int. How often it was drawn, of samples; else 1.
        attention: see `Hypothesis`.
    """

    words: list[str]
    log_prob: float
    score: float
    count: int
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

    def generate(
        self, lines: Sequence[str], sampler: Sampler | str = "greedy", **arguments: Any
    ) -> list[list[TextHypothesis]]:
        """Generates.

        Args:
            lines: list of str, read as the model's training text was.
            sampler, **arguments: see `Generator.generate`.

        Returns:
            list, for each line a list of distinct TextHypothesis, the best first.
        """
        read, predicted = self._first.source_vocabulary, self._first.target_vocabulary
        ids = [read.encode(words) for words in self._first.words(lines)]
        results = self._generator.generate(ids, sampler, **arguments)
        return [_distinct(hypotheses, predicted) for hypotheses in results]


def _distinct(hypotheses: Sequence[Hypothesis], vocabulary: Vocabulary) -> list[TextHypothesis]:
    counts = collections.Counter(hypothesis.ids for hypothesis in hypotheses)
    distinct = {hypothesis.ids: hypothesis for hypothesis in hypotheses}.values()
    ranked = sorted(distinct, key=lambda hypothesis: -hypothesis.score)
    return [
        TextHypothesis(vocabulary.decode(ids), log_prob, score, counts[ids], attention)
        for ids, log_prob, score, attention in ranked
    ]


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
