"""A hyper-parameter times a number, rounded up."""

import math

from keras_encdec.configuration import product_rounded_up


def test_the_product_is_rounded_up_as_if_it_were_exact():
    for hundredths in range(1, 500):
        for number in (1, 7, 10, 100, 1234):
            exact = -(-hundredths * number // 100)
            assert product_rounded_up(hundredths / 100, number) == exact, (hundredths, number)


def test_least_and_largest_number():
    assert product_rounded_up(1e-9, 1) == 1
    assert product_rounded_up(1e308, 100) == math.inf
