"""Which sources are decoded together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.decoding.generator import AREA, _batches, _rounded, _width


@pytest.mark.parametrize("number", [0, 1, 15, 64, 65, 1000, 2048])
def test_batches_are_of_nearly_one_size_and_of_like_lengths(number):
    lengths = np.random.default_rng(number).integers(1, 40, number).tolist()
    batches = [places for places, most in _batches(lengths, 64)]
    assert sorted(place for places in batches for place in places) == list(range(number))
    assert [lengths[place] for places in batches for place in places] == sorted(lengths)
    sizes = [len(places) for places in batches]
    assert all(size <= 64 for size in sizes) and len(sizes) == -(-number // 64)
    padded = {min(_rounded(size), 64) for size in sizes}
    assert sum(min(_rounded(size), 64) for size in sizes) <= 1.125 * number + 1 or max(sizes) < 16
    assert len(padded) <= 2


@given(st.lists(st.sampled_from([1, 9, 40, 130, 700, 5000, 70_000]), max_size=300), st.sampled_from([1, 64, 768]))
def test_no_batch_has_more_padded_tokens_than_are_allowed_unless_it_is_of_one(lengths, largest):
    found = list(_batches(lengths, largest))
    assert sorted(place for places, _ in found for place in places) == list(range(len(lengths)))
    for places, most in found:
        rows, width = min(_rounded(len(places)), most), _width(max(lengths[place] for place in places))
        assert len(places) <= rows <= most <= largest and (rows * width <= AREA or rows == 1)


def test_widths_are_few_and_not_much_too_wide():
    widths = {length: _width(length) for length in range(1, 5001)}
    assert all(length <= width <= max(length + 8, 1.125 * length + 1) for length, width in widths.items())
    assert len(set(widths.values())) < 65
