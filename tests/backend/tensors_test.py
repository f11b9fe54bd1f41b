import numpy as np
from gradients import double_precision
from keras import ops

from keras_encdec.backend.operations import store_rows, take_rows


def test_rows_are_stored_and_found_whatever_the_width_of_integers():
    for shape in [(6, 2), (6,)]:
        expected = np.zeros(shape, "float32")
        expected[3:5] = np.random.default_rng(0).random((2, *shape[1:]))
        with double_precision():
            start = ops.convert_to_tensor(3, "int32")
            table = store_rows(ops.zeros(shape, "float32"), start, ops.convert_to_tensor(expected[3:5]))
        np.testing.assert_array_equal(ops.convert_to_numpy(table), expected)


def test_take_rows_returns_the_rows_in_the_order_of_the_indices():
    table = np.random.default_rng(0).random((5, 3)).astype("float32")
    found = take_rows(ops.convert_to_tensor(table), ops.convert_to_tensor([4, 0, 4]))
    np.testing.assert_array_equal(ops.convert_to_numpy(found), table[[4, 0, 4]])
