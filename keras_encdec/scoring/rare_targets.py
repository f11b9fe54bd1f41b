"""Scores of the rare words of targets, by their characters."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_encdec.backend.types import Tensor
from keras_encdec.data.rare_word_batches import by_length

# Words that are spelt together, at most.
MOST_WORDS = 1024
# Fewest slots, so that few shapes are compiled.
FEWEST_SLOTS = 16


class PairSpellings(NamedTuple):
    """The spellings of the words of pairs that are outside the shortlists, see `OpenVocabulary`.

    Their ids follow those of the shortlist: the first id after it is that of row 0.

    Attributes:
        source, target: int32 arrays `(words, 51)`; `None` for a side without characters.
    """

    source: np.ndarray | None = None
    target: np.ndarray | None = None


class RareTargets:
    """The rare words of the targets of a group of pairs.

    A word that is spelt after the same prefix in several pairs is spelt once.

    Args:
        targets: int array `(n, width)`, padded with 0; an id from `first` on is that of a rare word.
        paths: int array `(n, width)`, the slot of the prefix before each word, see `PairGroup`.
        first: int.

    Attributes:
        slots: int32 array, the distinct slots of prefixes before a rare word, and then 0 up to a power of 2.
    """

    def __init__(self, targets: np.ndarray, paths: np.ndarray, first: int) -> None:
        self._shape = paths.shape
        rows, columns = np.nonzero(targets >= first)
        self._where = rows, columns
        pairs = np.stack([paths[rows, columns], targets[rows, columns] - first])
        (slots, self._words), self._index = np.unique(pairs, axis=1, return_inverse=True)
        distinct, self._row = np.unique(slots, return_inverse=True)
        size = FEWEST_SLOTS
        while size < len(distinct):
            size *= 2
        self.slots = np.zeros(size, np.int32)
        self.slots[: len(distinct)] = distinct

    def log_probs(self, speller: Callable[..., Tensor], first: np.ndarray, spellings: np.ndarray) -> np.ndarray:
        """Computes ln p of the characters of each rare word.

        Args:
            speller: compiled call of a `Speller`.
            first: float array `(slots, units)`, its first state for each of `slots`.
            spellings: integer array `(words, 51)`.

        Returns:
            float64 array like the targets, nats; 0 for all other words.
        """
        scores = np.zeros(len(self._words))
        for start in range(0, len(self._words), MOST_WORDS):
            part = slice(start, start + MOST_WORDS)
            for group in by_length(spellings[self._words[part]]):
                if not len(group.indices):
                    continue
                words = start + group.indices
                states = np.zeros((len(group.characters), first.shape[1]), first.dtype)
                states[: len(words)] = first[self._row[words]]
                scores[words] = ops.convert_to_numpy(speller(states, group.characters))[: len(words)]
        spelling = np.zeros(self._shape)
        spelling[self._where] = scores[self._index.ravel()]
        return spelling
