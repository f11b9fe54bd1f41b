"""Words and their ids."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from keras_encdec.errors import FilePath, InputError, quoted
from keras_encdec.formats import InputLines, open_output
from keras_encdec.formats.encodings import BYTE_ORDER_MARK

PADDING, UNKNOWN, END = 0, 1, 2
#: Spelling of the unknown word in output.
UNKNOWN_WORD = "<unk>"
FIRST_WORD = 3


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
        characters: Vocabulary of the characters that words outside the shortlist are spelt with, see
            `keras_encdec.text.spelling`. Defaults to `None`: all words outside the shortlist are the unknown word.

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
        """Returns the ids of the words, followed by the end of sequence."""
        return [*map(self._ids.__getitem__, words), END]

    def decode(self, ids: Iterable[int], unknown: str = UNKNOWN_WORD) -> list[str]:
        """Returns the words of ids. Padding and end of sequence are left out."""
        return [self.words[i - FIRST_WORD] if i >= FIRST_WORD else unknown for i in ids if i not in (PADDING, END)]

    def save(self, path: FilePath) -> None:
        """Writes one word per line, in UTF-8. Bytes that could not be decoded are written unchanged."""
        with open_output(path) as file:
            file.write("".join(f"{word}\n" for word in self.words).encode("utf-8", "surrogateescape"))

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
        words[0] = words[0].removeprefix(BYTE_ORDER_MARK)
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
            raise InputError(
                f"found {quoted(word)} again, as on line {seen[word]}",
                "expected distinct words",
                "remove one of the two",
                path,
                line,
            )
        seen[word] = line
    return words


def most_frequent(counts: Mapping[str, int], size: int) -> Vocabulary:
    """Makes a vocabulary of the most frequent words. Equally frequent words are ranked in code point order.

    Args:
        counts: mapping from a word to its number of occurrences.
        size: int. The maximum number of words.

    Returns:
        Vocabulary.
    """
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Vocabulary(word for word, _ in ranked[:size])
