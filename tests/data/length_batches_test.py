"""Which sequences are computed together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.data.batches import length_batches

MOST_TOKENS = 1 << 15


@pytest.mark.parametrize("number", [0, 1, 15, 64, 65, 1000, 2048])
def test_batches_have_nearly_the_same_size_and_similar_lengths(number):
    lengths = np.random.default_rng(number).integers(1, 40, number).tolist()
    batches = list(length_batches(lengths, 64, MOST_TOKENS))
    assert sorted(index for batch in batches for index in batch.indices) == list(range(number))
    assert [lengths[index] for batch in batches for index in batch.indices] == sorted(lengths)
    sizes = [len(batch.indices) for batch in batches]
    assert all(size <= 64 for size in sizes) and len(sizes) == -(-number // 64)
    assert sum(batch.rows for batch in batches) <= 1.125 * number + 1 or max(sizes) < 16
    assert len({batch.rows for batch in batches}) <= 2


@given(st.lists(st.sampled_from([1, 9, 40, 130, 700, 5000, 70_000]), max_size=300), st.sampled_from([1, 64, 768]))
def test_only_a_batch_of_one_sequence_may_have_more_padded_tokens_than_allowed(lengths, most_rows):
    batches = list(length_batches(lengths, most_rows, MOST_TOKENS))
    assert sorted(index for batch in batches for index in batch.indices) == list(range(len(lengths)))
    for indices, rows, width in batches:
        assert len(indices) <= rows <= most_rows and max(lengths[index] for index in indices) <= width
        assert rows * width <= MOST_TOKENS or rows == 1


def test_widths_are_few_and_not_much_too_wide():
    widths = {length: next(length_batches([length], 1, MOST_TOKENS)).width for length in range(1, 5001)}
    assert all(length <= width <= max(length + 8, 1.125 * length + 1) for length, width in widths.items())
    assert len(set(widths.values())) < 65
