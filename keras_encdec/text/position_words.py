"""Words of a target vocabulary that stand for an unknown word and say where in the source it comes from."""

import re
from collections.abc import Iterable, Sequence

from keras_encdec.text.vocabulary import UNKNOWN_WORD

#: Aligned words that are further apart are treated as not aligned.
LONGEST_DISTANCE = 7
NO_POSITION_WORD = "unkpos_null"
#: "unkpos_-7" to "unkpos_7", and "unkpos_null".
POSITION_WORDS = (*(f"unkpos_{d}" for d in range(-LONGEST_DISTANCE, LONGEST_DISTANCE + 1)), NO_POSITION_WORD)
_POSITION_WORD = re.compile(r"unkpos_(-?\d+)")


def is_position_word(word: str) -> bool:
    """Whether a word is "unkpos_d", for whatever distance d, or "unkpos_null"."""
    return word == NO_POSITION_WORD or position_distance(word) is not None


def stands_for_unknown(word: str) -> bool:
    """Whether a target word is "<unk>" or a position word."""
    return word == UNKNOWN_WORD or is_position_word(word)


def position_distance(word: str) -> int | None:
    """How many positions a target word "unkpos_d" stands after its source word: d; `None` for any other word.

    Example:

    >>> position_distance("unkpos_-2"), position_distance("unkpos_null"), position_distance("house")
    (-2, None, None)
    """
    match = _POSITION_WORD.fullmatch(word)
    return int(match[1]) if match else None


def position_word_indices(links: Iterable[tuple[int, int]], target_words: int) -> Sequence[int]:
    """Which of `POSITION_WORDS` stands for each word of a target, should it be unknown.

    A target word at j that is aligned to the source word at i becomes "unkpos_d", d = j - i. Of several source words
    that it is aligned to, the nearest counts, with the least |d|; of two that are as near, the first.

    Args:
        links: of pairs of source position and target position, from 0.
        target_words: int. Number of words in the target.

    Returns:
        list of int, one for each target word.

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
