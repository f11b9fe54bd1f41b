"""What the recurrent cells have in common."""

import keras
from keras import ops

from keras_encdec.layers.initializers import published_normal


class RecurrentCell(keras.layers.Layer):
    """Base of cells that project the inputs of any number of steps at once, and then take one step at a time.

    A subclass has the number of its `gates`, the candidate counted, and sets `step`.

    Args:
        units: int. Number of hidden units.
        kernel_initializer: of the matrices of the inputs. Defaults to N(0, 0.01).
        recurrent_initializer: of the matrices of the state. Defaults to that of the inputs.
    """

    gates = 1
    bias_initializer = "zeros"

    def __init__(self, units, kernel_initializer=None, recurrent_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer) or published_normal()
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer) or self.kernel_initializer
        self.state_size = units
        self.output_size = units

    def build(self, input_shape):
        width = self.gates * self.units
        self.kernel = self.add_weight(
            shape=(input_shape[-1], width), initializer=self.kernel_initializer, name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, width), initializer=self.recurrent_initializer, name="recurrent_kernel"
        )
        self.bias = self.add_weight(shape=(width,), initializer=self.bias_initializer, name="bias")
        self.built = True

    def project_inputs(self, inputs):
        """x W + b of all gates, `(..., features)` to `(..., gates * units)`, for any number of steps."""
        return ops.matmul(inputs, self.kernel) + self.bias

    def parameters(self):
        """The recurrent matrices, for `step`.

        Read once before a loop: one that read them at every step would keep a copy a step for its gradient.
        """
        return [ops.convert_to_tensor(self.recurrent_kernel)]

    def call(self, inputs, states, training=None):
        state, _ = self.step.forward(self.project_inputs(inputs), states[0], self.parameters())
        return state[:, : self.units], [state]

    def get_initial_state(self, batch_size=None):
        """Zeros, a list of one tensor `(batch_size, state_size)`."""
        return [ops.zeros((batch_size, self.state_size), dtype=self.compute_dtype)]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
        }
