"""Position words, which replace unknown words and name their source words, and dictionaries that translate these."""

import os
import re
from collections.abc import Iterable, Sequence

from keras_encdec.errors import InputError, quoted
from keras_encdec.formats import InputLines
from keras_encdec.formats.encodings import FileEncoding, unescape
from keras_encdec.text.vocabulary import UNKNOWN_WORD

#: Aligned words at a larger distance are treated as not aligned.
LONGEST_DISTANCE = 7
NO_POSITION_WORD = "unkpos_null"
#: "unkpos_-7" to "unkpos_7", and "unkpos_null".
POSITION_WORDS = (*(f"unkpos_{d}" for d in range(-LONGEST_DISTANCE, LONGEST_DISTANCE + 1)), NO_POSITION_WORD)
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
        if abs(distance) <= LONGEST_DISTANCE and (before is None or (abs(distance), i) < (abs(before), j - before)):
            distances[j] = distance
    null = len(POSITION_WORDS) - 1
    return [null if distance is None else distance + LONGEST_DISTANCE for distance in distances]


def read_dictionary(
    path: str | os.PathLike[str], encoding: str | None = None, can_declare: bool = True
) -> dict[str, str]:
    """Reads a dictionary, a file with a source word, a tab and its translation on each line.

    Moses's escapes are replaced by their characters. A third column, such as a count, is ignored.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The encoding, see `FileEncoding`. Defaults to `None`: UTF-8, and other bytes are an error.
        can_declare: bool. See `FileEncoding`. Defaults to `True`.

    Returns:
        dict from source word to target word.

    Raises:
        InputError: if a line does not have this form, or a source word occurs twice.
    """
    dictionary: dict[str, str] = {}
    with InputLines(path) as lines:
        for text in FileEncoding(encoding, can_declare).texts(lines):
            columns, number = text.split("\t"), lines.line_number
            words = [unescape(column.strip(" ")) for column in columns[:2]]
            if not 2 <= len(columns) <= 3 or not all(words):
                expected = "expected a source word, a tab and its translation"
                plural = "s" if len(columns) > 1 else ""
                found = f"found {len(columns)} column{plural} in {quoted(text)}"
                raise InputError(found, expected, "correct the line", path, number)
            if words[0] in dictionary:
                expected = "expected one translation of each word"
                raise InputError(f"found {quoted(words[0])} twice", expected, "remove a line", path, number)
            dictionary[words[0]] = words[1]
    return dictionary
