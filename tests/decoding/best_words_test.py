import numpy as np
import pytest
from gradients import double_precision
from keras import ops

from keras_encdec.decoding.barred_words import barred
from keras_encdec.decoding.best_words import STRIDED, best_words


@pytest.mark.parametrize("words", [7, STRIDED * 12, STRIDED * 12 + 1, 5003])
@pytest.mark.parametrize("k", [1, 5, 7])
def test_they_are_those_of_a_sorted_row(words, k):
    values = np.random.default_rng(words).normal(size=(9, words)).astype("float32")
    values[0, 3:5] = values[0].max() + 1  # equal ones, and one column full of the best
    values[1, :: -(-words // STRIDED)] += 9
    values[2, : words - k] = -np.inf
    found, places = (ops.convert_to_numpy(part) for part in best_words(ops.convert_to_tensor(values), k))
    np.testing.assert_array_equal(found, -np.sort(-values, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(values, places.astype("int64"), axis=1), found)
    assert all(len(set(row)) == k for row in places.tolist())
    values[:] = -np.inf
    assert ops.convert_to_numpy(best_words(ops.convert_to_tensor(values), k)[1]).max() < words


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_barred_words_have_no_probability_and_others_keep_theirs(dtype):
    with double_precision():
        log_probs = np.log(np.random.default_rng(0).random((3, 9)))
        found = barred(ops.convert_to_tensor(log_probs, dtype), [0, 4, 4])
        found = ops.convert_to_numpy(found)
    assert found.dtype == dtype and np.isneginf(found[:, [0, 4]]).all()
    others = [1, 2, 3, 5, 6, 7, 8]
    np.testing.assert_array_equal(found[:, others], log_probs.astype(dtype)[:, others])
