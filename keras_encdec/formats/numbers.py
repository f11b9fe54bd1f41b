"""What a number is, in every file and flag that has some."""

import math
import re

# The absolute value of features and weights: sums of products of larger ones may not be finite.
LARGEST = 1e30
# What Moses's tools read: no 1_0 as in Python, no inf, no nan.
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def finite_number(text: bytes | str, largest: float = math.inf) -> float:
    """A number as it stands in a file.

    Args:
        text: bytes or str.
        largest: float. The largest absolute value that is taken. Defaults to that of any finite number.

    Returns:
        float.

    Raises:
        ValueError: for other text, and for a number that is too large, such as 1e400.

    Example:

    >>> finite_number("-2.5e3")
    -2500.0
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    value = float(data) if _NUMBER.fullmatch(data) else math.nan
    if not (abs(value) <= largest and math.isfinite(value)):
        raise ValueError(f"found {data!r}, expected a finite number")
    return value
