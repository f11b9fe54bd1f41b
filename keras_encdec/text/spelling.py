"""Spelling of words by their characters, and ids of words outside a shortlist."""

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from keras_encdec.text.vocabulary import END, FIRST_WORD, UNKNOWN, Vocabulary, most_frequent

#: Maximum number of characters of a word that are read or spelt; the rest of a longer word is cut off.
LONGEST_WORD = 50
#: Width of a spelling: the characters and the end mark.
SPELLING_WIDTH = LONGEST_WORD + 1
# Maximum number of code points of a word that are normalized: it bounds the time, and few code points compose to one.
READ_CHARACTERS = 20 * LONGEST_WORD

Spellings = npt.NDArray[np.int32]


def characters_of(word: str) -> str:
    """Returns the characters of a word: its Unicode code points in NFC, at most 50.

    Example:

    >>> [len(characters_of(word)) for word in ("e\u0301te\u0301", "a" * 10_000)]
    [3, 50]
    """
    return unicodedata.normalize("NFC", word[:READ_CHARACTERS])[:LONGEST_WORD]


def spelled(words: Iterable[str], characters: Vocabulary) -> Spellings:
    """Returns the spellings of words.

    Args:
        words: iterable of n str.
        characters: Vocabulary of characters.

    Returns:
        int32 array `(n, 51)`: the ids of the characters, the unknown character among them, closed by the end mark (the
        vocabulary's end of sequence) and padded with 0.

    Example:

    >>> spelled(["aba", "ac"], Vocabulary("ab"))[:, :4].tolist()
    [[3, 4, 3, 2], [3, 1, 2, 0]]
    """
    rows = [characters.encode(characters_of(word)) for word in words]
    spellings = np.zeros((len(rows), SPELLING_WIDTH), np.int32)
    for spelling, ids in zip(spellings, rows, strict=True):
        spelling[: len(ids)] = ids
    return spellings


def spelled_word(ids: Iterable[int], characters: Vocabulary) -> str:
    """Returns the word of a spelling, up to its end mark."""
    ids = itertools.takewhile(lambda number: number != END, ids)
    return "".join(characters.decode(ids, unknown="\ufffd"))


def character_vocabulary(counts: Mapping[str, int], size: int) -> Vocabulary:
    """Makes a vocabulary of the most frequent characters.

    Args:
        counts: mapping from a word to its number of occurrences.
        size: int. The maximum number of characters.

    Example:

    >>> character_vocabulary({"aha": 2, "ab": 1}, 2).words
    ['a', 'h']
    """
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in characters_of(word):
            characters[character] += count
    return most_frequent(characters, size)


class OpenVocabulary:
    """Ids of all words of some texts: those of a vocabulary, and further ids for the words outside it.

    If the vocabulary has characters, each distinct word outside it gets its own id after those of the vocabulary, in
    the order in which the words occur. `spellings` has the spelling of each. Otherwise these words have the id of the
    unknown word.

    Args:
        vocabulary: Vocabulary.

    Example:

    >>> vocabulary = OpenVocabulary(Vocabulary(["the"], characters=Vocabulary("act")))
    >>> vocabulary.encode(["the", "cat", "act", "cat"]), len(vocabulary.spellings)
    ([3, 4, 5, 4, 2], 2)
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._first = FIRST_WORD + len(vocabulary)
        self._rare: dict[str, int] = {}

    def encode(self, words: Iterable[str]) -> list[int]:
        """Returns the ids of the words, followed by the end of sequence."""
        words = list(words)
        ids = self._vocabulary.encode(words)
        if self._vocabulary.characters is None:
            return ids
        # The end of sequence has no word.
        pairs = zip([*words, ""], ids, strict=True)
        return [self._rare_id(word) if number == UNKNOWN else number for word, number in pairs]

    def _rare_id(self, word: str) -> int:
        return self._rare.setdefault(word, self._first + len(self._rare))

    def is_rare(self, number: int) -> bool:
        """Returns whether an id is that of a word outside the vocabulary."""
        return number == UNKNOWN or number >= self._first

    @property
    def spellings(self) -> Spellings | None:
        """The spellings of the words outside the vocabulary, `(n, 51)`; `None` for a vocabulary without characters."""
        characters = self._vocabulary.characters
        return None if characters is None else spelled(self._rare, characters)
