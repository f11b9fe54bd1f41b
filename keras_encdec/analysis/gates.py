"""Computes the gates of an encoder's units over phrases, and statistics of each unit over a corpus."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.vectors import encoder_symbols, rare_word_vectors
from keras_encdec.data.batches import pad
from keras_encdec.formats import FilePath
from keras_encdec.formats.encodings import model_words
from keras_encdec.formats.fields import check_texts
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models.symbols import to_symbols
from keras_encdec.text.vocabulary import UNKNOWN

END_OF_SEQUENCE = "(end)"
# Words that occur fewer times than this are not given as examples of what a unit does.
MIN_SEEN = 3


@dataclasses.dataclass(frozen=True)
class PhraseGates:
    """The gates over a phrase.

    Attributes:
        words: list of str, in the order in which the encoder reads them, the end of sequence last.
        update: float32 array `(words, units)`. z; near 1, the unit keeps its old state.
        reset: float32 array `(words, units)`. r; near 0, the unit forgets what came before.
    """

    words: list[str]
    update: np.ndarray
    reset: np.ndarray


def has_gates(directory: ModelDirectory) -> bool:
    """Whether the encoder of a model has update and reset gates, as a GRU has."""
    return not {"encoder.U_z", "encoder.U_z.1"}.isdisjoint(encoder_symbols(directory))


def phrase_gates(
    directory: FilePath | ModelDirectory, phrases: Sequence[str], factored: bool = True
) -> list[PhraseGates]:
    """Computes the gates of the encoder's first layer, in a bidirectional encoder those from left to right.

    Args:
        directory: ModelDirectory of a model for which `has_gates` is true, or the path of one.
        phrases: list of str.
        factored: bool. Whether they are those of a phrase table, whose words may have factors, and not plain text.
            Defaults to `True`.

    Raises:
        ValueError: for a model without such gates, or a text in place of the list.
    """
    check_texts(phrases)
    directory = ModelDirectory.open(directory)
    if not has_gates(directory):
        raise ValueError("found an encoder without update and reset gates, expected one of GRUs")
    model = directory.model
    config = model.config
    symbols = to_symbols(model)
    suffix = "" if "encoder.U_z" in symbols else ".1"
    weights = {
        name: symbols[f"encoder.{name}{suffix}"] for name in ("W", "W_r", "W_z", "U", "U_r", "U_z", "b", "b_r", "b_z")
    }
    words = list(map(model_words, phrases)) if factored else directory.words(phrases)
    if getattr(config, "reverse_source", False):
        words = [phrase[::-1] for phrase in words]
    ids = [directory.source_vocabulary.encode(phrase) for phrase in words]
    embedded = symbols["source.E"][pad(ids)]
    if model.encoder.reader is not None:
        rare = np.nonzero(pad(ids) == UNKNOWN)
        read = [words[row][column] for row, column in zip(*rare, strict=True)]
        embedded[rare] = rare_word_vectors(directory, read).array
    hidden = np.zeros((len(ids), weights["U"].shape[0]), np.float32)
    updates, resets = [], []
    for now in embedded.swapaxes(0, 1):  # gates of padding are computed, too, and cut off below
        reset = _sigmoid(now @ weights["W_r"] + hidden @ weights["U_r"] + weights["b_r"])
        update = _sigmoid(now @ weights["W_z"] + hidden @ weights["U_z"] + weights["b_z"])
        if getattr(config, "reset_after", False):
            before = reset * (hidden @ weights["U"])
        else:
            before = (reset * hidden) @ weights["U"]
        new = np.tanh(now @ weights["W"] + weights["b"] + before)
        hidden = update * hidden + (1 - update) * new
        updates.append(update)
        resets.append(reset)
    all_updates, all_resets = np.stack(updates, axis=1), np.stack(resets, axis=1)
    return [
        PhraseGates([*phrase, END_OF_SEQUENCE], all_updates[i, : len(phrase) + 1], all_resets[i, : len(phrase) + 1])
        for i, phrase in enumerate(words)
    ]


@dataclasses.dataclass(frozen=True)
class UnitGates:
    """Statistics of the gates of each unit over a corpus.

    Attributes:
        kept: float64 array `(units,)`. Mean of the update gate z: the share of its old state that a unit keeps at a
            word.
        resets: float64 array `(units,)`. Share of the words at which the unit resets, r < 0.5.
        tokens: int. Number of words read, including ends of sequence.
        words: list of str. Words that occur three times or more.
        update_by_word, reset_by_word: float64 arrays `(words, units)`. Mean of each gate at each of these words.
    """

    kept: np.ndarray
    resets: np.ndarray
    tokens: int
    words: list[str]
    update_by_word: np.ndarray
    reset_by_word: np.ndarray

    @classmethod
    def of(cls, phrases: Sequence[PhraseGates]) -> "UnitGates":
        """Computes the statistics from the gates over all phrases of a corpus.

        Raises:
            ValueError: without a phrase.
        """
        if not phrases:
            raise ValueError("found no phrase, expected the gates over one or more")
        update = np.concatenate([phrase.update for phrase in phrases]).astype(np.float64)
        reset = np.concatenate([phrase.reset for phrase in phrases]).astype(np.float64)
        tokens = [word for phrase in phrases for word in phrase.words]
        indices = collections.defaultdict(list)
        for index, word in enumerate(tokens):
            indices[word].append(index)
        words = [word for word in indices if len(indices[word]) >= MIN_SEEN]
        by_word = [
            np.stack([gate[indices[word]].mean(axis=0) for word in words]) if words else gate[:0]
            for gate in (update, reset)
        ]
        return cls(update.mean(axis=0), (reset < 0.5).mean(axis=0), len(tokens), words, *by_word)

    def keep_longest(self, size: int) -> np.ndarray:
        """Returns the indices of the units that keep most of their state: int array."""
        return np.argsort(-self.kept, kind="stable")[:size]

    def reset_most(self, size: int) -> np.ndarray:
        """Returns the indices of the units that reset most often: int array."""
        return np.argsort(-self.resets, kind="stable")[:size]

    def most_updating_words(self, unit: int, size: int) -> list[str]:
        """Lists the words at which a unit changes its state most: those with the lowest update gate."""
        return [self.words[i] for i in np.argsort(self.update_by_word[:, unit], kind="stable")[:size]]

    def most_resetting_words(self, unit: int, size: int) -> list[str]:
        """Lists the words at which a unit resets most: those with the lowest reset gate."""
        return [self.words[i] for i in np.argsort(self.reset_by_word[:, unit], kind="stable")[:size]]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))
