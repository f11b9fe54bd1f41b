"""The number of updates in a number of epochs."""

import math

from keras_encdec.trainers.fitting import updates_in


def test_no_update_more_than_the_epochs_have():
    for hundredths in range(1, 500):
        for updates_per_epoch in (1, 7, 10, 100, 1234):
            exact = -(-hundredths * updates_per_epoch // 100)
            assert updates_in(hundredths / 100, updates_per_epoch) == exact, (hundredths, updates_per_epoch)


def test_least_and_largest_number():
    assert updates_in(1e-9, 1) == 1
    assert updates_in(1e308, 100) == math.inf
