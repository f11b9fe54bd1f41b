"""Lines of Moses n-best lists: parses them, adds features and replaces totals."""

import functools
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import FilePath, InputError, quoted, shortened
from keras_encdec.formats.fields import FIELD_SPACE, finite_number, split_tokens
from keras_encdec.formats.record_reader import MalformedLine, wrong_number_of_fields

_SEPARATOR = b"|||"
# An id must fit into an int of C.
_ID = re.compile(rb"\d{1,9}")
# With -t or -tt, Moses writes |0-1| or |0-1,wa=0-0 1-1,total=-2.5| after the words of each phrase. Only one space
# before it is matched: with `[ \t]+`, the time would grow with the square of the length of a run of spaces.
_TRACE = re.compile(rb"(?:^|[ \t])\|\d+-\d+(?:,[^|]*)?\|(?![^ \t])")


class NBestLine(NamedTuple):
    """The fields of a line of an n-best list, without the spaces around them.

    Attributes:
        id: int. Number of the source sentence, from 0.
        hypothesis: bytes. The translation, without the source spans that Moses writes after each phrase with `-t`.
        features: bytes. Names and values, `Name= v [v ...] Name2= v ...`.
        total: float. The weighted sum of the features.
    """

    id: int
    hypothesis: bytes
    features: bytes
    total: float


def parse_nbest_line(line: bytes) -> NBestLine:
    """Parses a line of an n-best list.

    Args:
        line: bytes, `id ||| hypothesis ||| features ||| total [||| segmentation] [||| alignment]`, without line feed.
            A carriage return may end the line.

    Raises:
        MalformedLine: a ValueError with `found` and `expected`, if the number of fields is not 4 to 6, the id or the
            total is not a number, or the features cannot be parsed.

    Example:

    >>> parse_nbest_line(b"0 ||| le chat  ||| LM0= -4.5 TM0= -1 -2 ||| -3.25")
    NBestLine(id=0, hypothesis=b'le chat', features=b'LM0= -4.5 TM0= -1 -2', total=-3.25)
    >>> parse_nbest_line(b"0 ||| le |0-0| chat |1-1|  ||| LM0= -4.5 ||| -3.25").hypothesis
    b'le chat'
    """
    fields = [field.strip(FIELD_SPACE) for field in line.split(_SEPARATOR)]
    if not 4 <= len(fields) <= 6:
        expected = 'expected 4 to 6 fields separated by "|||"'
        raise wrong_number_of_fields(len(fields), expected, "an n-best list", is_blank=not line.strip(FIELD_SPACE))
    number, hypothesis, features, total = fields[:4]
    if not _ID.fullmatch(number):
        expected = "expected the number of a source sentence, from 0"
        raise MalformedLine(f"found the id {quoted(number)}", expected, "an n-best list")
    parse_features(features)
    if b"|" in hypothesis:
        hypothesis = _TRACE.sub(b"", hypothesis).lstrip(FIELD_SPACE)
    return NBestLine(int(number), hypothesis, features, _number(total, "the total"))


def parse_features(features: bytes) -> dict[str, list[float]]:
    """Parses the features of a line.

    Args:
        features: bytes. The third field of a line.

    Returns:
        dict from the name of each feature, in order, to its values, a list of float.

    Raises:
        MalformedLine: if a value has no name, a name has no value, a value is not a finite number, or a name occurs
            twice.

    Example:

    >>> parse_features(b"LM0= -4.5 TM0= -1 -2")
    {'LM0': [-4.5], 'TM0': [-1.0, -2.0]}
    """
    return {name: list(values) for name, values in _parsed_features(features)}


# The reader parses the features of a line to check them, and its caller parses the same features again to use them.
@functools.lru_cache(maxsize=1)
def _parsed_features(features: bytes) -> list[tuple[str, list[float]]]:
    parsed: dict[str, list[float]] = {}
    name, values = "", None
    for word in split_tokens(features):
        if word.endswith(b"="):
            name = word[:-1].decode("utf-8", "surrogateescape")
            if not name or name in parsed:
                raise MalformedLine(f"found {quoted(word)}", "expected the name of a new feature")
            values = parsed[name] = []
        elif values is None and word.endswith(b":"):
            found, file = f"found {quoted(word)}, as old versions of Moses write", "an n-best list of Moses 2 or later"
            raise MalformedLine(found, 'expected features such as "LM0= -1"', file)
        elif values is None:
            expected = 'expected name, space and value, such as "LM0= -1"'
            raise MalformedLine(f"found {quoted(word)} before any feature", expected)
        else:
            values.append(_number(word, f"the value of {shortened(name)},"))
    for name, values in parsed.items():
        if not values:
            raise MalformedLine(f"found the feature {shortened(name)} without a value", "expected at least one")
    return list(parsed.items())


def append_features(line: bytes, features: Iterable[tuple[str, str]]) -> bytes:
    """Adds features, names and values, at the end of the third field of a line. No other byte changes.

    Example:

    >>> append_features(b"0 ||| le chat  ||| LM0= -4.5 ||| -3.25", [("RNN0", "-1.5")])
    b'0 ||| le chat  ||| LM0= -4.5 RNN0= -1.5 ||| -3.25'
    """
    fields = line.split(_SEPARATOR, 3)
    end = sum(map(len, fields[:2])) + 2 * len(_SEPARATOR) + len(fields[2].rstrip())
    added = "".join([f" {name}= {value}" for name, value in features]).encode("utf-8", "surrogateescape")
    return line[:end] + added + line[end:]


def feature_names(line: bytes) -> list[str]:
    """Returns the names of the features of a line, which may be malformed; an empty list if it has none."""
    words = [word for field in line.split(_SEPARATOR, 3)[2:3] for word in split_tokens(field)]
    return [word[:-1].decode("utf-8", "surrogateescape") for word in words if word.endswith(b"=")]


def check_new_features(
    known: Collection[str],
    names: Iterable[str],
    path: FilePath | None = None,
    line: int | None = None,
    remedy: str = "rename the new one with --feature_name",
) -> None:
    """Checks that a line does not yet have the features that are to be added to it.

    Args:
        known: names of the features of the line.
        names: names of the new features.
        path: the n-best list, named in errors. Optional.
        line: int. The number of the line. Optional.
        remedy: str. What the user can do other than giving another list. Defaults to renaming the new one.

    Raises:
        InputError: if the line has one of the new features.

    Example:

    >>> check_new_features({"LM0": [-4.5]}, ["LM0"])
    Traceback (most recent call last):
        ...
    keras_encdec.errors.InputError: found the feature LM0, expected it to be new; rename the new one with \
--feature_name, or give a list without the feature.
    """
    for name in names:
        if name in known:
            remedy = f"{remedy}, or give a list without the feature"
            raise InputError(f"found the feature {shortened(name)}", "expected it to be new", remedy, path, line)


def check_feature_name(name: str, argument: str = "feature_name") -> None:
    """Checks the name of a new dense feature.

    Args:
        name: str.
        argument: str. The name of the argument, for the error. Defaults to "feature_name".

    Raises:
        ConfigurationError: a ValueError, if Moses's tools would not read it as the name of a dense feature.
    """
    # The tuner treats a feature with an underscore in its name as sparse.
    if not re.fullmatch(r"[^\s_=|]+", name):
        raise ConfigurationError(f"found {{{argument}}}=%r, expected a name without white space, _, = and |", name)


def replace_total(line: bytes, total: str) -> bytes:
    """Replaces the total, the fourth field of a well-formed line. No other byte changes.

    Example:

    >>> replace_total(b"0 ||| le chat  ||| LM0= -4.5 ||| -3.25 ||| 0=0", "-2")
    b'0 ||| le chat  ||| LM0= -4.5 ||| -2 ||| 0=0'
    """
    fields = line.split(_SEPARATOR)
    fields[3] = fields[3].replace(fields[3].strip(FIELD_SPACE), total.encode())
    return _SEPARATOR.join(fields)


def _number(word: bytes, what: str) -> float:
    try:
        return finite_number(word)
    except ValueError:
        raise MalformedLine(f"found {what} {quoted(word)}", "expected a finite number") from None


_SPAN = re.compile(rb"(\d{1,20})(?:-(\d{1,20}))?=(\d{1,20})(?:-(\d{1,20}))?")
# Moses writes -1, as an unsigned integer, for the end of an empty phrase at the beginning of a hypothesis.
_BEFORE_THE_FIRST = (1 << 64) - 1


class PhraseSpan(NamedTuple):
    """The positions of the words of a phrase pair.

    Attributes:
        source_start: int. Position of the first word of the source phrase, from 0.
        source_end: int. Position after the last word of the source phrase.
        target_start: int. Position of the first word of the target phrase, from 0.
        target_end: int. Position after the last word of the target phrase; `target_start` if the phrase is empty.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int


def parse_segmentation(line: bytes, source_words: int, target_words: int) -> list[PhraseSpan] | None:
    """Parses the segmentation of a hypothesis into phrases, which Moses writes with `-include-segmentation-in-n-best`.

    Args:
        line: bytes. A well-formed line, see `parse_nbest_line`. The fifth field is the segmentation, `0=0 1-2=1-3`. It
            gives for each phrase, in the order of the hypothesis, the positions in the sentence, "=", and the positions
            in the hypothesis.
        source_words: int. Number of words in the sentence.
        target_words: int. Number of words in the hypothesis.

    Returns:
        list of PhraseSpan, which cover each word of both sides once; `None` if the line has no segmentation. An empty
        hypothesis of an empty sentence has no phrases: an empty list.

    Raises:
        MalformedLine: a ValueError with `found` and `expected`, if the field is not a segmentation or does not cover
            each word once.

    Example:

    >>> parse_segmentation(b"0 ||| le grand chat  ||| LM0= -4.5 ||| -3 ||| 0=0 1-2=1-2", 3, 3)
    [PhraseSpan(source_start=0, source_end=1, target_start=0, target_end=1), \
PhraseSpan(source_start=1, source_end=3, target_start=1, target_end=3)]
    """
    if source_words == target_words == 0:
        return []
    field = line.split(_SEPARATOR)[4:5]
    if not field or b"=" not in field[0]:  # the fifth field may also be the word alignment, 0-0 1-2
        return None
    words = split_tokens(field[0].strip(FIELD_SPACE))
    matches = [match for match in map(_SPAN.fullmatch, words) if match]
    spans = _spans(matches, target_words) if len(matches) == len(words) else None
    if spans is None or not _covers_once(spans, source_words, target_words):
        raise MalformedLine(
            f"found the segmentation {quoted(field[0].strip(FIELD_SPACE))}",
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
    spans: list[PhraseSpan] = []
    for (first, last, start, end), following in zip(numbers, starts[1:], strict=True):
        # An empty phrase starts where the next phrase starts, and its end is written as its start.
        empty = following == start and end in (start, _BEFORE_THE_FIRST)
        if not empty and following != end + 1:
            return None
        spans.append(PhraseSpan(first, last + 1, start, following))
    return spans


def _covers_once(spans: Sequence[PhraseSpan], source_words: int, target_words: int) -> bool:
    if (spans[0].target_start if spans else target_words) != 0:
        return False
    # In the order of the source, each phrase must begin where the previous phrase ends.
    reached = 0
    for span in sorted(spans):
        if span.source_start != reached or span.source_end <= reached:
            return False
        reached = span.source_end
    return reached == source_words
