import keras
import numpy as np
import pytest
from gradients import double_precision
from keras import ops

from keras_encdec.backend.operations import (
    FOLDED_LINES,
    in_row_order,
    stable_top_k,
    store_rows,
    sums_at,
    take_rows,
    top_k,
    with_table_rows,
)


@pytest.mark.parametrize("words", [7, FOLDED_LINES * 12, FOLDED_LINES * 32 + 1, 5003])
@pytest.mark.parametrize("k", [1, 5, 7])
def test_top_k_equals_sorting(words, k):
    values = np.random.default_rng(words).normal(size=(9, words)).astype("float32")
    values[0, 3:5] = values[0].max() + 1  # equal ones, and one column full of the best
    values[1, :: max(1, words // FOLDED_LINES)] += 9
    values[2, : words - k] = -np.inf
    found, indices = (ops.convert_to_numpy(part) for part in top_k(ops.convert_to_tensor(values), k))
    np.testing.assert_array_equal(found, -np.sort(-values, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(values, indices.astype("int64"), axis=1), found)
    assert all(len(set(row)) == k for row in indices.tolist())
    values[:] = -np.inf
    assert ops.convert_to_numpy(top_k(ops.convert_to_tensor(values), k)[1]).max() < words
    if keras.backend.backend() != "tensorflow":  # whose searches never have an empty batch
        assert tuple(top_k(ops.convert_to_tensor(values[:0]), k)[1].shape) == (0, k)


def test_stable_top_k_keeps_the_order_of_equal_values():
    values = np.array([[1, 3, 3, 2, 3], [-np.inf, 5, -np.inf, 5, 0], [-np.inf] * 5], "float32")
    found, indices = (ops.convert_to_numpy(part) for part in stable_top_k(ops.convert_to_tensor(values), 4))
    assert indices.tolist() == [[1, 2, 4, 3], [1, 3, 4, 0], [0, 1, 2, 3]] and indices.dtype == "int32"
    np.testing.assert_array_equal(found, np.take_along_axis(values, indices.astype("int64"), axis=1))


def test_rows_are_stored_and_found_whatever_the_width_of_integers():
    for shape in [(6, 2), (6,)]:
        expected = np.zeros(shape, "float32")
        expected[3:5] = np.random.default_rng(0).random((2, *shape[1:]))
        with double_precision():
            start = ops.convert_to_tensor(3, "int32")
            table = store_rows(ops.zeros(shape, "float32"), start, ops.convert_to_tensor(expected[3:5]))
        np.testing.assert_array_equal(ops.convert_to_numpy(table), expected)


def test_values_are_added_up_by_index():
    values, indices = np.array([1.5, 2, -4, 8], "float32"), np.array([2, 0, 2, 2], "int32")
    found = sums_at(*map(ops.convert_to_tensor, (values, indices)), 4)
    np.testing.assert_array_equal(ops.convert_to_numpy(found), [2, 0, 5.5, 0])


def test_take_rows_returns_the_rows_in_the_order_of_the_indices():
    table = np.random.default_rng(0).random((5, 3)).astype("float32")
    found = take_rows(ops.convert_to_tensor(table), ops.convert_to_tensor([4, 0, 4]))
    np.testing.assert_array_equal(ops.convert_to_numpy(found), table[[4, 0, 4]])


@pytest.mark.parametrize(("rows", "copied"), [(2, False), (6, True)])
def test_matrices_that_several_rows_share_are_stored_in_row_order(rows, copied):
    matrices = ops.transpose(ops.convert_to_tensor(np.arange(24.0).reshape(2, 3, 4)), (0, 2, 1))
    found = in_row_order(matrices, rows)
    np.testing.assert_array_equal(ops.convert_to_numpy(found), ops.convert_to_numpy(matrices))
    if keras.backend.backend() == "torch":
        assert found.is_contiguous() == copied


@pytest.mark.parametrize("sources", [1, 5, 64])
def test_table_rows_are_looked_up_for_the_rows_that_they_belong_to(sources):
    # 64 rows in up to 16 blocks: with 64 sources each row is a block, too many.
    rng = np.random.default_rng(0)
    indices = np.sort(rng.permutation(np.arange(64) % sources)).astype("int32")
    rows, table = rng.normal(size=(64, 3)).astype("float32"), rng.normal(size=(64, 2, 3)).astype("float32")
    groups = []

    def products(rows, tables):
        groups.append(tuple(rows["a"].shape))
        return rows["a"] * 2, ops.matmul(rows["a"], ops.swapaxes(tables["b"], 1, 2))

    rows_of_table = {"a": ops.convert_to_tensor(rows)}, {"b": ops.convert_to_tensor(table)}
    doubled, multiplied = with_table_rows(products, *rows_of_table, ops.convert_to_tensor(indices))
    np.testing.assert_array_equal(ops.convert_to_numpy(doubled), rows * 2)
    expected = np.einsum("rk,rsk->rs", rows, table[indices])
    np.testing.assert_allclose(ops.convert_to_numpy(multiplied), expected, atol=1e-5)
    if keras.backend.backend() == "torch":  # compiled backends trace both ways
        assert groups == [(16, 16, 3) if sources < 64 else (64, 1, 3)]
