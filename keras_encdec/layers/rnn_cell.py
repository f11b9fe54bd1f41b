"""Plain recurrent cell."""

import keras
from keras import ops

from keras_encdec.layers.initializers import published_normal
from keras_encdec.layers.recurrent_steps import RNNStep


@keras.saving.register_keras_serializable(package="keras_encdec")
class RNNCell(keras.layers.Layer):
    """Recurrent unit without gates, one step.

        h = tanh(x W + h U + b)

    Runs in `keras.layers.RNN`; over a whole sequence, `project_inputs` once and `step` at each time does
    the same with far fewer products.

    Args:
        units: int. Number of hidden units.
        kernel_initializer: of W. Defaults to N(0, 0.01).
        recurrent_initializer: of U. Defaults to that of W.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of one tensor `(batch, units)`.

    Returns:
        tuple: the new state `(batch, units)`, and the list of it.

    Example:

    >>> import keras
    >>> tuple(keras.layers.RNN(RNNCell(4))(keras.ops.ones((2, 3, 5))).shape)
    (2, 4)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2; Elman, 1990
    """

    def __init__(self, units, kernel_initializer=None, recurrent_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer) or published_normal()
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer) or self.kernel_initializer
        self.step = RNNStep()
        self.state_size = units
        self.output_size = units

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(shape=shape, initializer=self.kernel_initializer, name="kernel")
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, self.units), initializer=self.recurrent_initializer, name="recurrent_kernel"
        )
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")
        self.built = True

    def project_inputs(self, inputs):
        """x W + b, `(..., features)` to `(..., units)`, for any number of steps."""
        return ops.matmul(inputs, self.kernel) + self.bias

    def parameters(self):
        """The recurrent matrix, for `step`. See `GRUCell.parameters`."""
        return [ops.convert_to_tensor(self.recurrent_kernel)]

    def call(self, inputs, states, training=None):
        state, _ = self.step.forward(self.project_inputs(inputs), states[0], self.parameters())
        return state, [state]

    def get_initial_state(self, batch_size=None):
        """h_0 = 0, a list of one tensor `(batch_size, units)`."""
        return [ops.zeros((batch_size, self.units), dtype=self.compute_dtype)]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
        }
