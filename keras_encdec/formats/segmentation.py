"""The segmentation field of an n-best list: which phrases of the sentence became which of the hypothesis."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from keras_encdec.errors import quoted
from keras_encdec.formats.malformed_line import MalformedLine
from keras_encdec.formats.tokens import AROUND, split_tokens

_SEPARATOR = b"|||"
_SPAN = re.compile(rb"(\d{1,20})(?:-(\d{1,20}))?=(\d{1,20})(?:-(\d{1,20}))?")
# How Moses writes the end of a phrase without words that begins a hypothesis: -1, without a sign.
_BEFORE_THE_FIRST = (1 << 64) - 1


class PhraseSpan(NamedTuple):
    """Where the words of a phrase pair are.

    Attributes:
        source_start: int. The first word of the source phrase, from 0.
        source_end: int. The word after its last.
        target_start: int. The first word of the target phrase, from 0.
        target_end: int. The word after its last; `target_start` where it has no words.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int


def parse_segmentation(line: bytes, source_words: int, target_words: int) -> list[PhraseSpan] | None:
    """The phrases of a hypothesis, as Moses writes them with `-include-segmentation-in-n-best`.

    Args:
        line: bytes. A line that `parse_nbest_line` takes apart; its fifth field is the segmentation,
            `0=0 1-2=1-3`: the words of the sentence, =, those of the hypothesis, for each phrase in the order of the
            hypothesis.
        source_words: int. How many words the sentence has.
        target_words: int. How many words the hypothesis has.

    Returns:
        list of PhraseSpan, which cover each word of both sides once; `None` when the line has no such field.

    Raises:
        MalformedLine: a ValueError with `found` and `expected`, when the field does not follow the form or does not
            cover each word once.

    Example:

    >>> parse_segmentation(b"0 ||| le grand chat  ||| LM0= -4.5 ||| -3 ||| 0=0 1-2=1-2", 3, 3)
    [PhraseSpan(source_start=0, source_end=1, target_start=0, target_end=1), \
PhraseSpan(source_start=1, source_end=3, target_start=1, target_end=3)]
    """
    field = line.split(_SEPARATOR)[4:5]
    if not field or b"=" not in field[0]:  # the fifth field may also be the word alignment, 0-0 1-2
        return None
    matches = [_SPAN.fullmatch(word) for word in split_tokens(field[0].strip(AROUND))]
    spans = _spans(matches, target_words) if all(matches) else None
    if spans is None or not _covers_once(spans, source_words, target_words):
        raise MalformedLine(
            f"found the segmentation {quoted(field[0].strip(AROUND))}",
            f'expected spans such as "1-2=0" that cover each of the {source_words} words of the sentence once, and '
            f"the {target_words} of the hypothesis in order",
        )
    return spans


def _spans(matches: Sequence[re.Match[bytes]], target_words: int) -> list[PhraseSpan] | None:
    numbers = [
        (int(first), int(last or first), int(start), int(end or start))
        for first, last, start, end in (match.groups() for match in matches)
    ]
    starts = [start for _, _, start, _ in numbers] + [target_words]
    spans = []
    for (first, last, start, end), following in zip(numbers, starts[1:], strict=True):
        # A phrase without words has the start of the next one, and its end is written as its start.
        empty = following == start and end in (start, _BEFORE_THE_FIRST)
        if not empty and following != end + 1:
            return None
        spans.append(PhraseSpan(first, last + 1, start, following))
    return spans


def _covers_once(spans, source_words, target_words):
    if (spans[0].target_start if spans else target_words) != 0:
        return False
    # In the order of the source, each phrase begins where the one before ends.
    reached = 0
    for span in sorted(spans):
        if span.source_start != reached or span.source_end <= reached:
            return False
        reached = span.source_end
    return reached == source_words
