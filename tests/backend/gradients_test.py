import keras
import numpy as np
import pytest
from gradients import gradients_of
from keras import ops

from keras_encdec.backend.gradients import custom_gradient, product, summed_product


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("steps", [1, 3])
def test_product_and_its_gradients_are_those_of_matmul(steps):
    rows, matrix, bias, factor = arrays((2, steps, 4), (4, 5), (5,), (2, steps, 5))
    expected = rows @ matrix + bias
    d_rows, d_matrix = factor @ matrix.T, np.einsum("btm,btn->mn", rows, factor)
    for way, found, gradients in gradients_of(
        lambda rows, matrix, bias, factor: ops.sum(product(rows, matrix, bias) * factor),
        [rows, matrix, bias, factor],
        lambda rows, matrix, bias, factor: product(rows, matrix) + bias,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=way)
        for gradient, values in zip(gradients, (d_rows, d_matrix, factor.sum((0, 1)), expected), strict=True):
            np.testing.assert_allclose(gradient, values, rtol=1e-4, atol=1e-5, err_msg=way)


def test_a_product_with_a_wider_bias_is_not_rounded():
    rows, matrix, bias = (
        ops.ones(shape, dtype) for shape, dtype in (((2, 3), "bfloat16"), ((3, 4), "bfloat16"), (4, "float32"))
    )
    found = product(rows, matrix, bias / 1024)
    np.testing.assert_array_equal(ops.convert_to_numpy(found), np.full((2, 4), 3 + 1 / 1024, "float32"))


def second_derivative(function, value):
    """The derivative of the derivative of a function of one number."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        x = tf.constant(value)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            first = tape.gradient(y, x)
        return outer.gradient(first, x)
    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(jax.grad(function))(value)
    import torch

    x = torch.tensor(value, requires_grad=True)
    (first,) = torch.autograd.grad(function(x), x, create_graph=True)
    return torch.autograd.grad(first, x)[0].detach()


def test_a_gradient_that_uses_residuals_can_be_differentiated():
    cube = custom_gradient(lambda x: ([x * x * x], x * x), lambda square, upstream: [3 * square * upstream[0]])
    np.testing.assert_allclose(second_derivative(lambda x: cube(x)[0], 2.0), 12, rtol=1e-6)


def test_summed_product_adds_up_the_products_of_all_steps():
    left, right = arrays((3, 2, 4), (3, 2, 5))
    found = ops.convert_to_numpy(summed_product(ops.convert_to_tensor(left), ops.convert_to_tensor(right)))
    np.testing.assert_allclose(found, np.einsum("tbm,tbn->mn", left, right), rtol=1e-4, atol=1e-5)
