import numpy as np
import pytest
from keras import ops

from keras_encdec.backend.operations import STRIDED, stable_top_k, top_k


@pytest.mark.parametrize("words", [7, STRIDED * 12, STRIDED * 12 + 1, 5003])
@pytest.mark.parametrize("k", [1, 5, 7])
def test_top_k_equals_sorting(words, k):
    values = np.random.default_rng(words).normal(size=(9, words)).astype("float32")
    values[0, 3:5] = values[0].max() + 1  # equal ones, and one column full of the best
    values[1, :: -(-words // STRIDED)] += 9
    values[2, : words - k] = -np.inf
    found, indices = (ops.convert_to_numpy(part) for part in top_k(ops.convert_to_tensor(values), k))
    np.testing.assert_array_equal(found, -np.sort(-values, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(values, indices.astype("int64"), axis=1), found)
    assert all(len(set(row)) == k for row in indices.tolist())
    values[:] = -np.inf
    assert ops.convert_to_numpy(top_k(ops.convert_to_tensor(values), k)[1]).max() < words


def test_stable_top_k_keeps_the_order_of_equal_values():
    values = np.array([[1, 3, 3, 2, 3], [-np.inf, 5, -np.inf, 5, 0], [-np.inf] * 5], "float32")
    found, indices = (ops.convert_to_numpy(part) for part in stable_top_k(ops.convert_to_tensor(values), 4))
    assert indices.tolist() == [[1, 2, 4, 3], [1, 3, 4, 0], [0, 1, 2, 3]] and indices.dtype == "int32"
    np.testing.assert_array_equal(found, np.take_along_axis(values, indices.astype("int64"), axis=1))
