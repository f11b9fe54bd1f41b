"""The dense layer, with products that keep float64."""

from collections.abc import Callable

import keras

from keras_encdec.backend.gradients import product
from keras_encdec.backend.operations import tanh
from keras_encdec.backend.types import Tensor


@keras.saving.register_keras_serializable(package="keras_encdec")
class Dense(keras.layers.Dense):
    """Keras's dense layer, y = f(x W + b), with the product and the tanh of this package, which keep float64.

    Keras's product converts float64 to float32 under PyTorch, and its tanh under JAX.

    Args:
        **kwargs: see `keras.layers.Dense`.

    Call arguments:
        inputs: float tensor `(..., features)`. A mask passes through unchanged.

    Returns:
        float tensor `(..., units)`.

    Example:

    >>> from keras import ops
    >>> tuple(Dense(4, activation="tanh")(ops.ones((2, 3))).shape)
    (2, 4)
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        outputs = product(inputs, self.kernel, self.bias)
        activation: Callable[[Tensor], Tensor] = tanh if self.activation is keras.activations.tanh else self.activation
        return activation(outputs)
