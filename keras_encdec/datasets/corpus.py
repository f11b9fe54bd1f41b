"""From texts to a parallel corpus: sentences, tokens, cleaning and the held-out sets."""

import random
import re

from keras_encdec.errors import InputError

_SENTENCE_END = re.compile(r'(?<=[.!?])\s+(?=[^\W\d_a-zà-ÿ]|["“«(])')
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_MAX_WORDS = 60
_MAX_RATIO = 3


def split_sentences(source: str, target: str) -> list[tuple[str, str]]:
    """Splits a pair of paragraphs at sentence ends, where both have equally many.

    >>> split_sentences("Click it. Close.", "Cliquez. Fermez.")
    [('Click it.', 'Cliquez.'), ('Close.', 'Fermez.')]
    """
    sources, targets = _SENTENCE_END.split(source), _SENTENCE_END.split(target)
    return list(zip(sources, targets, strict=True)) if len(sources) == len(targets) else [(source, target)]


def normalize(text: str) -> str:
    """Removes invisible characters and makes the typographic apostrophe the plain one.

    >>> normalize("l’\u200bété")
    "l'été"
    """
    return _INVISIBLE.sub("", text).replace("’", "'")


def is_clean(source: str, target: str) -> bool:
    """Whether two token lists look like a sentence and its translation.

    Both have a letter and at most 60 tokens, neither is over 3 times (and 3 tokens) longer than the
    other, and text of more than two tokens is not the same on both sides: that was left untranslated.

    Args:
        source, target: lists of str.

    Returns:
        bool.
    """
    short, long = sorted((len(source), len(target)))
    return (
        short > 0
        and long <= _MAX_WORDS
        and (long <= _MAX_RATIO * short or long - short <= 3)
        and (source != target or long <= 2)
        and all(any(map(_has_letter, side)) for side in (source, target))
    )


def hold_out(pairs: list, count: int, seed: int) -> tuple[list, ...]:
    """Draws sentence pairs at random for development and testing.

    Drawn are pairs of 3 to 40 words on both sides, mostly of letters. A sentence counts as the same as
    another when they differ in punctuation only; one that occurs twice is not drawn.

    Args:
        pairs: list of distinct `(source_words, target_words)`.
        count: int. How many pairs each of the two sets gets.
        seed: int.

    Returns:
        `(training, development, testing)`: lists of pairs. Training keeps the order of `pairs`.

    Raises:
        InputError: when there are too few pairs that can be drawn.
    """
    keys = [tuple(_wording(side) for side in pair) for pair in pairs]
    occurrences = {}
    for key in keys:
        for side in enumerate(key):
            occurrences[side] = occurrences.get(side, 0) + 1
    candidates = [
        index
        for index, (pair, key) in enumerate(zip(pairs, keys, strict=True))
        if all(3 <= len(words) <= 40 and 3 * sum(map(_has_letter, words)) >= 2 * len(words) for words in pair)
        and all(occurrences[side] == 1 for side in enumerate(key))
    ]
    if len(candidates) < 2 * count:
        raise InputError(
            f"found {len(candidates)} sentence pairs that can be held out",
            f"expected {2 * count}",
            "hold out fewer, or give more text",
        )
    drawn = random.Random(seed).sample(candidates, 2 * count)
    held_out = set(drawn)
    training = [pair for index, pair in enumerate(pairs) if index not in held_out]
    return training, [pairs[index] for index in drawn[:count]], [pairs[index] for index in drawn[count:]]


def _wording(words):
    return tuple(word for word in words if any(map(str.isalnum, word)))


def _has_letter(word):
    return any(map(str.isalpha, word))
