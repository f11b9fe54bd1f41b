"""Checks of the sizes that layers are made with."""

import numbers


def checked_size(name: str, value: object) -> int:
    """Returns a size as an int.

    Args:
        name: str. The argument's name, for the error.
        value: the argument; an int, or an integer of another library, such as NumPy.

    Raises:
        ValueError: if it is not a whole number, 1 or more.

    Example:

    >>> checked_size("units", 0)
    Traceback (most recent call last):
        ...
    ValueError: found units=0, expected a whole number, 1 or more
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"found {name}={value!r}, expected a whole number, 1 or more")
    return int(value)
