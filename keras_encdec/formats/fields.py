"""Tokens and numbers, read in the same way from every text file."""

import math
from typing import Any, overload

# White space around a field of a line; a carriage return may end the line.
AROUND = b" \t\r"


@overload
def split_tokens(text: str) -> list[str]: ...
@overload
def split_tokens(text: bytes) -> list[bytes]: ...
def split_tokens(text: Any) -> list[Any]:
    """The tokens of a line, which spaces and tabs separate, as in Moses.

    Any other white space, such as a vertical tab, a form feed or a no-break space, is part of a token. The carriage
    return that may end a line must have been removed.

    Args:
        text: str or bytes.

    Returns:
        list of str or bytes, empty for an empty line.

    Example:

    >>> split_tokens(" le\\tchat  10\\u00a0000 ")
    ['le', 'chat', '10\\xa0000']
    """
    separators: tuple[Any, Any] = (" ", "\t") if isinstance(text, str) else (b" ", b"\t")
    space, tab = separators
    if tab in text:
        text = text.replace(tab, space)
    tokens = text.split(space)
    return [token for token in tokens if token] if not all(tokens) else tokens


# The absolute value of features and weights: sums of products of larger ones may not be finite.
LARGEST = 1e30


def finite_number(text: bytes | str, largest: float = math.inf) -> float:
    """Reads a number of a text file.

    Args:
        text: bytes or str.
        largest: float. The largest absolute value that is allowed. Defaults to infinity: any finite number.

    Returns:
        float.

    Raises:
        ValueError: for other text, and for a number that is too large, such as 1e400.

    Example:

    >>> finite_number("-2.5e3")
    -2500.0
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    try:
        value = float(data)
    except ValueError:
        value = math.nan
    # Python also reads 1_0, inf and nan, and numbers between white space, which Moses's tools do not.
    if not -largest <= value <= largest or not math.isfinite(value) or b"_" in data or data.strip() != data:
        raise ValueError(f"found {data!r}, expected a finite number")
    return value
