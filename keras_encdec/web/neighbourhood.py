"""Finds the nearest neighbours of a phrase by the vectors of the encoder."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from keras_encdec.analysis.table_sample import Reservoir
from keras_encdec.analysis.vectors import phrase_vectors
from keras_encdec.backend.compiled_call import LayerFunction, compiled_call
from keras_encdec.backend.types import Encoded
from keras_encdec.data.prepared_pairs import SUMMARY, PreparedPairs
from keras_encdec.formats import FilePath, PhraseTableReader, escape, model_words
from keras_encdec.formats.plain_text import read_sentences
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.vocabulary import UNKNOWN
from keras_encdec.trainers.training_files import PREPARED

# Number of pairs that are read at a time.
READ_TOGETHER = 8192


def known_phrases(
    directory: ModelDirectory,
    phrase_table: FilePath | None = None,
    input: FilePath | None = None,
    size: int = 10_000,
    encoding: str | None = None,
) -> list[str]:
    """Draws a random sample of distinct phrases for the model to read.

    Args:
        directory: ModelDirectory. Without a file, its training data are read, if it still has them.
        phrase_table: Moses phrase table; the side that the model reads is read. Optional.
        input: text file, one phrase or sentence per line. Optional.
        size: int. Maximum number of phrases. Defaults to `10_000`.
        encoding: str. Encoding of the files. Defaults to `None`: UTF-8.

    Returns:
        list of str, words separated by spaces; empty if there is no data.

    Raises:
        InputError: if a file cannot be read.
    """
    if phrase_table is not None:
        with PhraseTableReader(phrase_table, encoding) as table:
            read = (directory.reordered((record.source, record.target))[0] for record in table)
            sources = (source for source, _ in itertools.groupby(read))
            sample = Reservoir(size, "known phrases")
            for source in sources:
                sample.offer(source)
        return _distinct(" ".join(model_words(source)) for source in sample.items())
    if input is not None:
        sample = Reservoir(size, "known phrases")
        for line in read_sentences(input, encoding):
            sample.offer(line)
        return _distinct(" ".join(words) for words in directory.words(sample.items()))
    if (directory.path / PREPARED / SUMMARY).exists():
        return _trained_phrases(directory, size)
    return []


def _trained_phrases(directory: ModelDirectory, size: int) -> list[str]:
    pairs = PreparedPairs(directory.path / PREPARED)
    order = np.random.default_rng(0).permutation(len(pairs))
    phrases: dict[str, None] = {}
    for start in range(0, len(order), READ_TOGETHER):
        for row in pairs.padded(np.sort(order[start : start + READ_TOGETHER]))["source"].tolist():
            if UNKNOWN not in row:
                phrases[" ".join(directory.source_vocabulary.decode(row))] = None
        if len(phrases) >= size:
            break
    return list(phrases)[:size]


def _distinct(phrases: Iterable[str]) -> list[str]:
    return [phrase for phrase in dict.fromkeys(phrases) if phrase]


# Number of phrases that are encoded at a time.
ENCODED_TOGETHER = 1024


class Neighbourhood:
    """Finds the phrases, words separated by spaces, with the nearest encoder vectors; `steps` encodes them."""

    def __init__(self, directory: ModelDirectory, phrases: Sequence[str]) -> None:
        self._directory = directory
        self.phrases = list(phrases)
        self._arrays: list[np.ndarray] = []
        # Without `compiled_call`, JAX would compile the encoder again for each request, and keep every program.
        self._encode_query = compiled_call(LayerFunction(directory.model.encode, directory.model))

    def steps(self) -> Iterator[Callable[[], None]]:
        """Yields functions that encode the phrases in parts. Neighbours are found among the phrases encoded so far."""
        self._arrays = []
        for start in range(0, len(self.phrases), ENCODED_TOGETHER):
            yield functools.partial(self._encode, start)

    @property
    def encoded(self) -> int:
        """Number of phrases that are encoded."""
        return sum(map(len, self._arrays))

    def nearest(self, words: Sequence[str], size: int) -> list[tuple[str, float]]:
        """Finds at most `size` other phrases and their cosine similarities, the nearest first."""
        if not self._arrays:
            return []
        vector = self._unit_vectors([" ".join(words)], self._encode_query)[0]
        near = np.concatenate([array @ vector for array in self._arrays])
        order = np.argsort(-near, kind="stable")[: size + 1]
        neighbours = [(self.phrases[i], float(near[i])) for i in order if self.phrases[i] != " ".join(words)]
        return neighbours[:size]

    def _encode(self, start: int) -> None:
        self._arrays.append(self._unit_vectors(self.phrases[start : start + ENCODED_TOGETHER]))

    def _unit_vectors(
        self, phrases: Sequence[str], encode: Callable[[np.ndarray, list[np.ndarray]], Encoded] | None = None
    ) -> np.ndarray:
        array = phrase_vectors(self._directory, list(map(escape, phrases)), encode).array
        array /= np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12)
        return array
