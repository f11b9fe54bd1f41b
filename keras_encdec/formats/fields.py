"""Tokens and numbers in text files, with one definition for all formats."""

import math
import reprlib
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, AnyStr

# White space to remove around a field of a line, including the carriage return that may end the line.
FIELD_SPACE = b" \t\r"


def split_tokens(text: AnyStr) -> list[AnyStr]:
    r"""Splits a line into tokens at spaces and tabs, as Moses does.

    Any other white space, such as a vertical tab, a form feed or a no-break space, is part of a token. Remove the
    carriage return at the end of a line first.

    Example:

    >>> split_tokens(" le\tchat  10\u00a0000 ")
    ['le', 'chat', '10\xa0000']
    """
    space, tab = (" ", "\t") if isinstance(text, str) else (b" ", b"\t")
    if tab in text:
        text = text.replace(tab, space)
    tokens = text.split(space)
    return [token for token in tokens if token] if not all(tokens) else tokens


def check_texts(texts: object) -> None:
    """Checks that an argument is a list of texts, not a single text, whose letters would be read as texts.

    Raises:
        ValueError: for a text, and for an object that cannot be iterated over.
    """
    if isinstance(texts, str):
        raise ValueError(f"found the text {reprlib.repr(texts)}, expected a list of texts")
    if not isinstance(texts, Iterable):
        raise ValueError(f"found {reprlib.repr(texts)}, expected a list of texts")


def text_in_place_of_words(text: str) -> ValueError:
    """Makes the error of a text that was given in place of a list of words: it would be read letter by letter."""
    return ValueError(f"found the text {reprlib.repr(text)}, expected a list of words")


def are_words(words: Any) -> bool:
    """Returns whether an object is a list of words, or another sequence or an array of them.

    A str counts as the list of its letters. A set does not count, because it has no order.

    Example:

    >>> are_words(["le", "chat"]), are_words(["le", None]), are_words(b"le")
    (True, False, False)
    """
    is_plain = isinstance(words, list | tuple)  # the usual case, found faster than the others
    if not is_plain and (isinstance(words, bytes | Set | Mapping) or not isinstance(words, Collection)):
        return False
    try:
        "".join(words)  # faster than looking at the type of each
    except TypeError:
        return False
    return True


# The largest absolute value of features and weights. Sums of products of larger numbers may be infinite.
LARGEST = 1e30


def finite_number(text: bytes | str, largest: float = math.inf) -> float:
    """Parses a number in a text file. Its absolute value may be at most `largest`.

    Raises:
        ValueError: if the text is not a number, or the number is too large, such as 1e400.

    Example:

    >>> finite_number("-2.5e3")
    -2500.0
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    try:
        value = float(data)
    except ValueError:
        value = math.nan
    # Python also parses 1_0, inf, nan, and numbers with white space around them; Moses's tools do not.
    if not -largest <= value <= largest or not math.isfinite(value) or b"_" in data or data.strip() != data:
        raise ValueError(f"found {data!r}, expected a finite number")
    return value
