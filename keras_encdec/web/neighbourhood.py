"""The nearest neighbours of a phrase among many."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from keras_encdec.analysis.vectors import phrase_vectors
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.web.known_phrases import table_text

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

    def steps(self) -> Iterator[Callable[[], None]]:
        """What is to be computed before neighbours are found, in parts: iterator of callables."""
        self._arrays = []
        for start in range(0, len(self.phrases), ENCODED_TOGETHER):
            yield lambda start=start: self._encode(start)

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
        vector = self._unit_vectors([" ".join(words)])[0]
        near = np.concatenate([array @ vector for array in self._arrays])
        order = np.argsort(-near, kind="stable")[: size + 1]
        found = [(self.phrases[i], float(near[i])) for i in order if self.phrases[i] != " ".join(words)]
        return found[:size]

    def _encode(self, start):
        self._arrays.append(self._unit_vectors(self.phrases[start : start + ENCODED_TOGETHER]))

    def _unit_vectors(self, phrases):
        texts = [table_text(self._directory, phrase.split(" ")) for phrase in phrases]
        array = phrase_vectors(self._directory, texts).array
        return array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12)
