import numpy as np
import pytest
from gradients import gradients_of
from keras import ops

from keras_encdec.backend.gradients import product, summed_product


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("steps", [1, 3])
def test_product_and_its_gradients_are_those_of_matmul(steps):
    rows, matrix, factor = arrays((2, steps, 4), (4, 5), (2, steps, 5))
    expected = rows @ matrix
    d_rows, d_matrix = factor @ matrix.T, np.einsum("btm,btn->mn", rows, factor)
    for way, found, gradients in gradients_of(
        lambda rows, matrix, factor: ops.sum(product(rows, matrix) * factor),
        [rows, matrix, factor],
        lambda rows, matrix, factor: product(rows, matrix),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=way)
        for gradient, values in zip(gradients, (d_rows, d_matrix, expected), strict=True):
            np.testing.assert_allclose(gradient, values, rtol=1e-4, atol=1e-5, err_msg=way)


def test_summed_product_adds_up_the_products_of_all_steps():
    left, right = arrays((3, 2, 4), (3, 2, 5))
    found = ops.convert_to_numpy(summed_product(ops.convert_to_tensor(left), ops.convert_to_tensor(right)))
    np.testing.assert_allclose(found, np.einsum("tbm,tbn->mn", left, right), rtol=1e-4, atol=1e-5)
