"""Tests of parsing numbers."""

import math

import pytest

from keras_encdec.formats.fields import LARGEST, finite_number


@pytest.mark.parametrize("text", ["0", "-1", "+2.5", ".5", "1.", "1e-05", "-3.3E+3", "1e308"])
def test_a_finite_number_is_read_as_python_reads_it(text):
    assert finite_number(text) == finite_number(text.encode()) == float(text)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "x", "inf", "-Infinity", "nan", "1_0", "0x1", "1e400", "-3.3e9999", "1" * 400, "\u0661"]
)
def test_text_that_is_not_a_finite_number_is_an_error(text):
    for form in (text, text.encode()):
        with pytest.raises(ValueError, match="expected a finite number"):
            finite_number(form)


def test_the_absolute_value_may_be_bounded():
    assert finite_number("-1e30", LARGEST) == -LARGEST
    for text in ("1.1e30", "-1e31"):
        with pytest.raises(ValueError, match="expected a finite number"):
            finite_number(text, LARGEST)
    assert math.isfinite(finite_number("-1e31"))
