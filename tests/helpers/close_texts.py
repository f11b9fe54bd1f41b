"""Compares texts with scores in them: the same words, and numbers that differ by rounding only."""

import re

import numpy as np

# Decimals only: counts and sentence numbers are part of the text. Alignment weights and exponents are included.
DECIMAL = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def assert_close_texts(found, expected, rtol=1e-5, atol=1e-5):
    """Fails if two texts differ in more than the last digits of their decimal numbers.

    Scores of the same pair that were computed in batches of different shapes differ in the last digits of float32, and
    by how much depends on the processor. Files with such scores cannot be compared byte by byte.

    Args:
        found, expected: str or bytes.
        rtol, atol: float. Tolerances of the numbers, as in `numpy.testing.assert_allclose`. Default to `1e-5`.
    """
    found, expected = (text.decode() if isinstance(text, bytes) else text for text in (found, expected))
    assert DECIMAL.sub("#", found) == DECIMAL.sub("#", expected)
    numbers = ([float(number) for number in DECIMAL.findall(text)] for text in (found, expected))
    np.testing.assert_allclose(*numbers, rtol=rtol, atol=atol)
