"""One line of a Moses n-best list: taken apart, and written again with more features or another total."""

import functools
import math
import re
from collections import namedtuple
from collections.abc import Iterable

from keras_encdec.configuration import ConfigurationError
from keras_encdec.formats.malformed_line import MalformedLine

_SEPARATOR = b"|||"
_SPACE = b" \t\r"
# What Moses's tools read: no 1_0 as in Python, no inf, no nan. Ids are C's int.
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ID = re.compile(rb"\d{1,9}")

NBestLine = namedtuple("NBestLine", "id hypothesis features total")
NBestLine.__doc__ = """What is on one line of an n-best list, without the spaces around it.

    Attributes:
        id: int. Number of the source sentence, from 0.
        hypothesis: bytes. The translation.
        features: bytes. Names and values, `Name= v [v ...] Name2= v ...`.
        total: float. The weighted sum of the features.
    """


def parse_nbest_line(line: bytes) -> NBestLine:
    """Takes a line of an n-best list apart.

    Args:
        line: bytes, `id ||| hypothesis ||| features ||| total [||| segmentation] [||| alignment]` without
            its line feed; a carriage return may end it.

    Returns:
        NBestLine.

    Raises:
        MalformedLine: a ValueError with `found` and `expected`, when there are other than four to six
            fields, id or total is no number, or the features cannot be parsed.

    Example:

    >>> parse_nbest_line(b"0 ||| le chat  ||| LM0= -4.5 TM0= -1 -2 ||| -3.25")
    NBestLine(id=0, hypothesis=b'le chat', features=b'LM0= -4.5 TM0= -1 -2', total=-3.25)
    """
    fields = [field.strip(_SPACE) for field in line.split(_SEPARATOR)]
    if not 4 <= len(fields) <= 6:
        plural = "s" if len(fields) > 1 else ""
        found = f"found {len(fields)} field{plural}" if line.strip() else "found a blank line"
        raise MalformedLine(found, 'expected 4 to 6 fields separated by "|||"')
    number, hypothesis, features, total = fields[:4]
    if not _ID.fullmatch(number):
        raise MalformedLine(f'found the id "{_shown(number)}"', "expected the number of a source sentence, from 0")
    parse_features(features)
    return NBestLine(int(number), hypothesis, features, _number(total, "the total"))


def parse_features(features: bytes) -> dict[str, list[float]]:
    """The values of each feature.

    Args:
        features: bytes. The third field of a line.

    Returns:
        dict of str, the features' names in their order, to list of float.

    Raises:
        MalformedLine: when a value has no name, a name no value, a value is no finite number, or a name
            comes twice.

    Example:

    >>> parse_features(b"LM0= -4.5 TM0= -1 -2")
    {'LM0': [-4.5], 'TM0': [-1.0, -2.0]}
    """
    return {name: list(values) for name, values in _parsed_features(features)}


# A line is taken apart to be checked, and right after that by who needs the values.
@functools.lru_cache(maxsize=1)
def _parsed_features(features):
    parsed, values = {}, None
    for word in features.split():
        if word.endswith(b"="):
            name = word[:-1].decode("utf-8", "surrogateescape")
            if not name or name in parsed:
                raise MalformedLine(f'found "{_shown(word)}"', "expected the name of another feature")
            values = parsed[name] = []
        elif values is None:
            raise MalformedLine(f'found "{_shown(word)}" before any feature', 'expected a name such as "LM0="')
        else:
            values.append(_number(word, f"the value of {name},"))
    for name, values in parsed.items():
        if not values:
            raise MalformedLine(f"found the feature {name} without a value", "expected at least one")
    return list(parsed.items())


def append_features(line: bytes, features: Iterable[tuple[str, str]]) -> bytes:
    """Adds features at the end of the third field of a line; no other byte changes.

    Args:
        line: bytes. A line of at least three fields, without its line feed.
        features: list of `(name, value)`, str.

    Returns:
        bytes.

    Example:

    >>> append_features(b"0 ||| le chat  ||| LM0= -4.5 ||| -3.25", [("RNN0", "-1.5")])
    b'0 ||| le chat  ||| LM0= -4.5 RNN0= -1.5 ||| -3.25'
    """
    fields = line.split(_SEPARATOR, 3)
    end = sum(map(len, fields[:2])) + 2 * len(_SEPARATOR) + len(fields[2].rstrip())
    added = "".join([f" {name}= {value}" for name, value in features]).encode("utf-8", "surrogateescape")
    return line[:end] + added + line[end:]


def has_features(line: bytes) -> bool:
    """Whether a line, malformed perhaps, has a field of features that more can be added to.

    Args:
        line: bytes.

    Returns:
        bool.
    """
    try:
        parse_features(line.split(_SEPARATOR)[2])
    except (MalformedLine, IndexError):
        return False
    return True


def check_feature_name(name: str, argument: str = "feature_name") -> None:
    """Checks the name of a new dense feature.

    Args:
        name: str.
        argument: str. The argument that names it. Defaults to "feature_name".

    Raises:
        ConfigurationError: a ValueError, where Moses's tools would not read it as the name of a dense feature.
    """
    # The tuner takes a name with an underscore for that of a sparse feature.
    if not re.fullmatch(r"[^\s_=|]+", name):
        raise ConfigurationError(f"found {{{argument}}}=%r, expected a name without white space, _, = and |", name)


def replace_total(line: bytes, total: str) -> bytes:
    """Puts another total into the fourth field of a line; no other byte changes.

    Args:
        line: bytes. A line that `parse_nbest_line` takes apart.
        total: str.

    Returns:
        bytes.

    Example:

    >>> replace_total(b"0 ||| le chat  ||| LM0= -4.5 ||| -3.25 ||| 0=0", "-2")
    b'0 ||| le chat  ||| LM0= -4.5 ||| -2 ||| 0=0'
    """
    fields = line.split(_SEPARATOR)
    fields[3] = fields[3].replace(fields[3].strip(_SPACE), total.encode())
    return _SEPARATOR.join(fields)


def _number(word, what):
    value = float(word) if _NUMBER.fullmatch(word) else math.nan
    if not math.isfinite(value):
        raise MalformedLine(f'found {what} "{_shown(word)}"', "expected a number")
    return value


def _shown(data):
    return data.decode("utf-8", "backslashreplace")
