"""The nearest neighbours of a phrase among many."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from keras_encdec.analysis.table_sample import Reservoir
from keras_encdec.analysis.vectors import phrase_vectors
from keras_encdec.backend.compiled_call import compiled_call
from keras_encdec.data.prepare import SUMMARY, PreparedPairs
from keras_encdec.formats import FilePath, PhraseTableReader, escape, model_words
from keras_encdec.formats.sentences import read_sentences
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.vocabulary import UNKNOWN

# Pairs whose sources are read at a time.
READ_TOGETHER = 8192


def known_phrases(
    directory: ModelDirectory,
    phrase_table: FilePath | None = None,
    input: FilePath | None = None,
    size: int = 10_000,
    encoding: str | None = None,
) -> list[str]:
    """Distinct phrases that the model can read, a random sample of all.

    Args:
        directory: ModelDirectory. Its training data are read if it still has them, and no file is given.
        phrase_table: Moses phrase table, whose sources are taken. Optional.
        input: text, a phrase or sentence a line. Optional.
        size: int. Phrases at most. Defaults to `10_000`.
        encoding: str. Encoding of the files. Defaults to `None`: UTF-8.

    Returns:
        list of str, words with a space between them; empty where there is no data.

    Raises:
        InputError: when a file cannot be read.
    """
    if phrase_table is not None:
        with PhraseTableReader(phrase_table, encoding) as table:
            sources = (source for source, _ in itertools.groupby(record.source for record in table))
            sample = Reservoir(size, "known phrases")
            for source in sources:
                sample.offer(source)
        return _distinct(" ".join(model_words(source)) for source in sample.items())
    if input is not None:
        sample = Reservoir(size, "known phrases")
        for line in read_sentences(input, encoding):
            sample.offer(line)
        return _distinct(" ".join(words) for words in directory.words(sample.items()))
    if (directory.path / "prepared" / SUMMARY).exists():
        return _trained_phrases(directory, size)
    return []


def table_text(directory: ModelDirectory, words: list[str]) -> str:
    """Words as a phrase table has them: what is read from it are these words again."""
    text = " ".join(words)
    return escape(text) if directory.tokenization is None else text.replace("|", " | ")


def _trained_phrases(directory, size):
    pairs = PreparedPairs(directory.path / "prepared")
    order = np.random.default_rng(0).permutation(len(pairs))
    found: dict[str, None] = {}
    for start in range(0, len(order), READ_TOGETHER):
        for row in pairs.padded(np.sort(order[start : start + READ_TOGETHER]))["source"].tolist():
            if UNKNOWN not in row:
                found[" ".join(directory.source_vocabulary.decode(row))] = None
        if len(found) >= size:
            break
    return list(found)[:size]


def _distinct(phrases):
    return [phrase for phrase in dict.fromkeys(phrases) if phrase]


# Phrases that are encoded at a time.
ENCODED_TOGETHER = 1024


class Neighbourhood:
    """Phrases by what the encoder makes of them.

    Args:
        directory: ModelDirectory.
        phrases: list of str, words with a space between them.
    """

    def __init__(self, directory: ModelDirectory, phrases: Sequence[str]) -> None:
        self._directory = directory
        self.phrases = list(phrases)
        self._arrays: list[np.ndarray] = []
        # Without it, JAX compiles the encoder anew for each question, and keeps every program.
        self._encode_question = compiled_call(_Encoding(directory.model))

    def steps(self) -> Iterator[Callable[[], None]]:
        """What is to be computed before neighbours are found, in parts: iterator of callables."""
        self._arrays = []
        for start in range(0, len(self.phrases), ENCODED_TOGETHER):
            yield functools.partial(self._encode, start)

    @property
    def encoded(self) -> int:
        """How many of the phrases are ready to be found: int."""
        return sum(map(len, self._arrays))

    def nearest(self, words: Sequence[str], size: int) -> list[tuple[str, float]]:
        """The nearest others by cosine similarity.

        Args:
            words: list of str, the phrase.
            size: int. How many, fewer where there are not as many.

        Returns:
            list of (phrase, similarity), the nearest first.
        """
        if not self._arrays:
            return []
        vector = self._unit_vectors([" ".join(words)], self._encode_question)[0]
        near = np.concatenate([array @ vector for array in self._arrays])
        order = np.argsort(-near, kind="stable")[: size + 1]
        found = [(self.phrases[i], float(near[i])) for i in order if self.phrases[i] != " ".join(words)]
        return found[:size]

    def _encode(self, start):
        self._arrays.append(self._unit_vectors(self.phrases[start : start + ENCODED_TOGETHER]))

    def _unit_vectors(self, phrases, encode=None):
        texts = [table_text(self._directory, phrase.split(" ")) for phrase in phrases]
        array = phrase_vectors(self._directory, texts, encode).array
        return array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12)


class _Encoding(keras.layers.Layer):
    """What the encoder of a model makes of sources."""

    def __init__(self, model) -> None:
        super().__init__(name="encoding", dtype=model.dtype_policy)
        self.model = model
        self.built = True

    def call(self, source: Any) -> dict[str, Any]:
        return self.model.encoder(source)
