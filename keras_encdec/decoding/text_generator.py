"""Target text for source text, from model directories."""

import collections
from typing import NamedTuple

from keras_encdec.decoding.generator import Generator
from keras_encdec.errors import InputError
from keras_encdec.models import RecurrentLanguageModel
from keras_encdec.scoring import ModelDirectory


class TextHypothesis(NamedTuple):
    """A target text that was generated.

    Attributes:
        words: list of str; "<unk>" stands for the unknown word.
        log_prob: float. ln p in nats, end of sequence included.
        score: float. What hypotheses are ranked by.
        count: int. How often it was drawn, of samples; else 1.
    """

    words: list
    log_prob: float
    score: float
    count: int


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

    def __init__(self, directories, weights=None, average="arithmetic"):
        self._directories = [
            directory if isinstance(directory, ModelDirectory) else ModelDirectory.load(directory)
            for directory in directories
        ]
        self._first, *others = self._directories
        for other in others:
            _check_alike(self._first, other)
        self._generator = Generator([directory.model for directory in self._directories], weights, average)

    @property
    def has_source(self):
        """bool. Whether targets depend on a source; those of a language model do not."""
        return not isinstance(self._first.model, RecurrentLanguageModel)

    def generate(self, lines, sampler="greedy", **arguments):
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
        return [_distinct(found, predicted) for found in results]


def _distinct(found, vocabulary):
    counts = collections.Counter(one.ids for one in found)
    hypotheses = {one.ids: one for one in found}.values()
    ranked = sorted(hypotheses, key=lambda one: -one.score)
    return [TextHypothesis(vocabulary.decode(one.ids), one.log_prob, one.score, counts[one.ids]) for one in ranked]


def _check_alike(first, other):
    for what, of in {
        "source vocabulary": lambda directory: directory.source_vocabulary.words,
        "target vocabulary": lambda directory: directory.target_vocabulary.words,
        "tokenization": lambda directory: directory.tokenization,
        "direction": lambda directory: directory.reverse,
    }.items():
        if of(first) != of(other):
            raise InputError(
                f"found another {what} than in {first.path}", "expected the same in all models of an ensemble",
                "train them on the same data with the same --shortlist", other.path,
            )  # fmt: skip
