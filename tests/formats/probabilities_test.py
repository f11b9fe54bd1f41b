"""Tests of the numbers that are written for Moses."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.formats.phrase_table import format_exponential, format_probability


def moses_log(text):
    """What Moses's loader stores: max(ln p, -100) in single precision."""
    probability = np.float32(text)
    assert probability > 0, "0 becomes -100 only because its logarithm is floored"
    return max(float(np.log(probability)), -100.0)


@given(st.floats(-150.0, 0.0))
def test_moses_reads_the_log_probability_back(log_probability):
    tolerance = 1e-5 if log_probability > -87 else 0.02
    expected = pytest.approx(max(log_probability, -100.0), abs=tolerance)
    assert moses_log(format_probability(log_probability)) == expected


@given(st.floats(max_value=0.0))
def test_the_order_of_scores_is_kept(log_probability):
    assert float(format_probability(log_probability)) >= float(format_probability(log_probability - 1))


def test_digits_are_those_of_c():
    assert [format_probability(value) for value in (0.0, -math.log(2), -20.0, -100.0)] == [
        "1",
        "0.5",
        "2.06115e-09",
        "3.72008e-44",
    ]


def test_the_extremes_stay_in_range():
    assert format_probability(-math.inf) == format_probability(-1e300) == format_probability(-100.0)
    assert format_probability(1e-6) == "1"
    assert float(format_probability(-100.0)) >= math.exp(-100.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_infinity_are_errors(value):
    with pytest.raises(ValueError, match="expected a number up to 0"):
        format_probability(value)


def test_moses_reads_counts_back():
    assert [round(moses_log(format_exponential(count))) for count in range(89)] == list(range(89))
    assert np.isfinite(np.float32(format_exponential(10**9)))
    with pytest.raises(ValueError, match="expected 0 or more"):
        format_exponential(-1)
