"""Words and their ids, and what replaces words outside a shortlist: their characters, or position words."""

import functools
import itertools
import re
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from keras_encdec.errors import FilePath, InputError, quoted
from keras_encdec.formats import InputLines
from keras_encdec.formats.encodings import BYTE_ORDER_MARK
from keras_encdec.formats.fields import text_in_place_of_words
from keras_encdec.runtime.open_output import write_file

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PADDING, UNKNOWN, END = 0, 1, 2
#: Spelling of the unknown word in output.
UNKNOWN_WORD = "<unk>"
FIRST_WORD = 3
#: Maximum number of characters of a word that are read or spelled; the rest of a longer word is cut off.
MAX_WORD_LENGTH = 50
#: Width of a spelling: the characters and the end mark.
SPELLING_WIDTH = MAX_WORD_LENGTH + 1
# Maximum number of code points of a word that are normalized, to bound the time. It exceeds `MAX_WORD_LENGTH` because
# normalization may compose several code points into one character.
READ_CHARACTERS = 20 * MAX_WORD_LENGTH


class _Ids(dict[str, int]):
    """Dict from words to ids. Any other word has the id of the unknown word."""

    def __missing__(self, word: str) -> int:
        return UNKNOWN


class Vocabulary:
    """The shortlist of the source or the target language: words in the order of their ids, which start at 3.

    Ids 0, 1 and 2 are padding, the unknown word and the end of sequence. They have no spelling, so that a text may
    contain any word, even "<unk>".

    Args:
        words: iterable of str, distinct.
        characters: Vocabulary of the characters that words outside the shortlist are spelled with, see
            `OpenVocabulary`. Defaults to `None`: all words outside the shortlist are the unknown word.

    Raises:
        ValueError: if a word occurs twice.

    Example:

    >>> vocabulary = Vocabulary(["le", "chat"])
    >>> vocabulary.encode(["le", "chien"]), vocabulary.decode([3, 4])
    ([3, 1, 2], ['le', 'chat'])
    """

    def __init__(self, words: Iterable[str], characters: "Vocabulary | None" = None) -> None:
        self.words = list(words)
        self.characters = characters
        self._ids = _Ids(zip(self.words, itertools.count(FIRST_WORD), strict=False))
        if len(self._ids) < len(self.words):
            [(twice, _)] = Counter(self.words).most_common(1)
            raise ValueError(f"found {twice!r} twice, expected distinct words")

    def __len__(self) -> int:
        """Returns the number of words, without the three special ids."""
        return len(self.words)

    def encode(self, words: Iterable[str]) -> list[int]:
        """Returns the ids of the words, followed by the end of sequence.

        Raises:
            ValueError: for a text, which is a list of words only for a vocabulary of characters.
        """
        if isinstance(words, str) and not self._is_of_characters:
            raise text_in_place_of_words(words)
        return [*map(self._ids.__getitem__, words), END]

    def known_in_lower_case(self, words: Iterable[str]) -> int:
        """Counts the words outside the shortlist whose lower-case forms are in it.

        Returns:
            int; 0 for a shortlist with capital letters, whose model knows them.
        """
        if not self._is_lower_case:
            return 0
        return sum(word not in self._ids and word.lower() in self._ids for word in words)

    @functools.cached_property
    def _is_of_characters(self) -> bool:
        return all(len(word) == 1 for word in self.words)

    @functools.cached_property
    def _is_lower_case(self) -> bool:
        return all(word == word.lower() for word in self.words)

    def decode(self, ids: Iterable[int], unknown: str = UNKNOWN_WORD) -> list[str]:
        """Returns the words of ids, with `unknown` for the unknown word. Padding and end of sequence are left out.

        Raises:
            ValueError: for an id that the vocabulary does not have.
        """
        ids, number = list(ids), FIRST_WORD + len(self.words)
        if wrong := [i for i in ids if not 0 <= i < number]:
            raise ValueError(f"found the id {wrong[0]}, expected ids from 0 to {number - 1}")
        return [self.words[i - FIRST_WORD] if i >= FIRST_WORD else unknown for i in ids if i not in (PADDING, END)]

    def save(self, path: FilePath) -> None:
        """Writes one word per line, in UTF-8. Bytes that could not be decoded are written unchanged.

        Raises:
            ValueError: for a word with a line feed, which `load` would take for two.
        """
        if wrong := [word for word in self.words if "\n" in word]:
            raise ValueError(f"found the word {reprlib.repr(wrong[0])}, expected words without line feeds")
        write_file(path, "".join(f"{word}\n" for word in self.words).encode("utf-8", "surrogateescape"))

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Reads a file that `save` wrote. If every line ends with a carriage return, these are removed.

        Raises:
            InputError: if the file cannot be read, or a word is empty, contains a space or a tab, or occurs twice.
        """
        words = _lines(path)
        if all(word.endswith("\r") for word in words):
            words = [word[:-1] for word in words]
        return cls(_checked(words, path))

    @classmethod
    def from_word_list(cls, path: FilePath) -> Self:
        """Reads a file with one word per line that a user has written.

        A byte-order mark at the start of the file and carriage returns at the ends of lines are removed.

        Raises:
            InputError: see `load`.
        """
        words = [word.removesuffix("\r") for word in _lines(path)]
        words[0] = words[0].removeprefix(BYTE_ORDER_MARK) or words[0]  # the mark alone is a word
        return cls(_checked(words, path))


def _lines(path: FilePath) -> list[str]:
    with InputLines(path) as lines:
        return [raw.decode("utf-8", "surrogateescape") for raw in lines]


def _checked(words: Sequence[str], path: FilePath) -> Sequence[str]:
    """Checks that each line is a single word, and that no word occurs twice. Returns the words."""
    seen: dict[str, int] = {}
    for line, word in enumerate(words, start=1):
        if not word or " " in word or "\t" in word:
            raise InputError(f"found {quoted(word)}", "expected one word per line", "correct the line", path, line)
        if word in seen:
            found = f"found {quoted(word)} again, as on line {seen[word]}"
            raise InputError(found, "expected distinct words", "remove one of the two", path, line)
        seen[word] = line
    return words


def most_frequent(counts: Mapping[str, int], size: int, reserved: Sequence[str] = ()) -> Vocabulary:
    """Makes a vocabulary of the most frequent words. Equally frequent words are ranked in code point order.

    `UNKNOWN_WORD` is left out: in text that a model wrote, it stands for the unknown word, and is encoded as such.

    Args:
        counts: mapping from a word to its number of occurrences.
        size: int. The maximum number of words, those in `reserved` included.
        reserved: list of str. The last words of the vocabulary, however often they occur; all are kept, even more than
            `size`. Defaults to none.
    """
    others = [(word, count) for word, count in counts.items() if word not in (UNKNOWN_WORD, *reserved)]
    ranked = sorted(others, key=lambda item: (-item[1], item[0]))[: max(0, size - len(reserved))]
    return Vocabulary([*(word for word, _ in ranked), *reserved])


def characters_of(word: str) -> str:
    """Returns the characters of a word: its Unicode code points in NFC, at most 50.

    Example:

    >>> [len(characters_of(word)) for word in ("e\u0301te\u0301", "a" * 10_000)]
    [3, 50]
    """
    return unicodedata.normalize("NFC", word[:READ_CHARACTERS])[:MAX_WORD_LENGTH]


def spelled(words: Iterable[str], characters: Vocabulary) -> "npt.NDArray[np.int32]":
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
    import numpy as np  # not with the module, which commands read before they import Keras

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
        pairs, rare, first = zip([*words, ""], ids, strict=True), self._rare, self._first
        return [rare.setdefault(word, first + len(rare)) if number == UNKNOWN else number for word, number in pairs]

    def is_rare(self, number: int) -> bool:
        """Returns whether an id is that of a word outside the vocabulary."""
        return number == UNKNOWN or number >= self._first

    @property
    def spellings(self) -> "npt.NDArray[np.int32] | None":
        """The spellings of the words outside the vocabulary, `(n, 51)`; `None` for a vocabulary without characters."""
        characters = self._vocabulary.characters
        return None if characters is None else spelled(self._rare, characters)


#: Aligned words at a larger distance are treated as not aligned.
MAX_DISTANCE = 7
NO_POSITION_WORD = "unkpos_null"
#: "unkpos_-7" to "unkpos_7", and "unkpos_null".
POSITION_WORDS = (*(f"unkpos_{d}" for d in range(-MAX_DISTANCE, MAX_DISTANCE + 1)), NO_POSITION_WORD)
_BEGINNING = "unkpos_"
_POSITION_WORD = re.compile(rf"{_BEGINNING}(-?\d+)")


def is_position_word(word: str) -> bool:
    """Returns whether a word is "unkpos_d", for any distance d, or "unkpos_null"."""
    return word == NO_POSITION_WORD or position_distance(word) is not None


def stands_for_unknown(word: str) -> bool:
    """Returns whether a target word is "<unk>" or a position word."""
    return word == UNKNOWN_WORD or (word.startswith(_BEGINNING) and is_position_word(word))


def position_distance(word: str) -> int | None:
    """Returns the distance d of a target word "unkpos_d" from its source word; `None` for any other word.

    Example:

    >>> position_distance("unkpos_-2"), position_distance("unkpos_null"), position_distance("house")
    (-2, None, None)
    """
    match = _POSITION_WORD.fullmatch(word)
    return int(match[1]) if match else None


def position_word_indices(links: Iterable[tuple[int, int]], target_words: int) -> Sequence[int]:
    """Returns the position word that replaces each word of a target if the word is unknown.

    A target word at j that is aligned to the source word at i becomes "unkpos_d", d = j - i. If it is aligned to
    several source words, the nearest one, with the smallest |d|, is used; of two at the same distance, the first.

    Args:
        links: iterable of pairs of source position and target position, from 0.
        target_words: int. Number of words in the target.

    Returns:
        list of int. An index into `POSITION_WORDS` for each target word.

    Example:

    >>> [POSITION_WORDS[index] for index in position_word_indices([(0, 1), (3, 1), (9, 0)], 3)]
    ['unkpos_null', 'unkpos_1', 'unkpos_null']

    Reference:
        - Luong et al., 2015, "Addressing the Rare Word Problem in Neural Machine Translation" (arXiv 1410.8206)
    """
    distances: list[int | None] = [None] * target_words
    for i, j in links:
        distance, before = j - i, distances[j]
        if abs(distance) <= MAX_DISTANCE and (before is None or (abs(distance), i) < (abs(before), j - before)):
            distances[j] = distance
    null = len(POSITION_WORDS) - 1
    return [null if distance is None else distance + MAX_DISTANCE for distance in distances]
