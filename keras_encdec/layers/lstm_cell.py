"""Long short-term memory cell."""

import keras
from keras import ops

from keras_encdec.layers.initializers import published_normal
from keras_encdec.layers.recurrent_steps import LSTMStep


@keras.saving.register_keras_serializable(package="keras_encdec")
class LSTMCell(keras.layers.Layer):
    """Long short-term memory, one step.

        i = sigmoid(x W_i + h U_i + b_i)
        f = sigmoid(x W_f + h U_f + b_f)
        o = sigmoid(x W_o + h U_o + b_o)
        g = tanh(x W_g + h U_g + b_g)
        c = f * c + i * g
        h = o * tanh(c)

    The state is one tensor, [h c], which travels as one and is masked as one. The gates stand in the
    order of the equations, other than in `keras.layers.LSTMCell`.

    The thesis writes no biases. b_f starts at one, as in `keras.layers.LSTMCell`, so that the memory is
    kept until the gate has learned otherwise (Jozefowicz et al., 2015); the others start at zero.

    Runs in `keras.layers.RNN`, but under JAX not with a mask, where Keras takes the first state for the output;
    over a whole sequence, `project_inputs` once and `run_through_time` does the same with far fewer products.

    Args:
        units: int. Number of hidden units, and of memory cells.
        kernel_initializer: of W_i, W_f, W_o, W_g. Defaults to N(0, 0.01).
        recurrent_initializer: of U_i, U_f, U_o, U_g. Defaults to that of the W.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of one tensor `(batch, 2 * units)`: [h c].

    Returns:
        tuple: the new h `(batch, units)`, and the list of the new state.

    Example:

    >>> import keras
    >>> tuple(keras.layers.RNN(LSTMCell(4))(keras.ops.ones((2, 3, 5))).shape)
    (2, 4)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2; Zaremba et al., 2014
          (arXiv 1409.2329), section 3.1
    """

    def __init__(self, units, kernel_initializer=None, recurrent_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer) or published_normal()
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer) or self.kernel_initializer
        self.step = LSTMStep()
        self.state_size = 2 * units
        self.output_size = units

    def build(self, input_shape):
        units = self.units

        def open_forget_gate(shape, dtype=None):
            return ops.concatenate([ops.zeros(units, dtype), ops.ones(units, dtype), ops.zeros(2 * units, dtype)])

        self.kernel = self.add_weight(
            shape=(input_shape[-1], 4 * units), initializer=self.kernel_initializer, name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            shape=(units, 4 * units), initializer=self.recurrent_initializer, name="recurrent_kernel"
        )
        self.bias = self.add_weight(shape=(4 * units,), initializer=open_forget_gate, name="bias")
        self.built = True

    def project_inputs(self, inputs):
        """x [W_i W_f W_o W_g] + [b_i b_f b_o b_g], `(..., features)` to `(..., 4 * units)`, for any number of steps."""
        return ops.matmul(inputs, self.kernel) + self.bias

    def parameters(self):
        """The recurrent matrix, for `step`. See `GRUCell.parameters`."""
        return [ops.convert_to_tensor(self.recurrent_kernel)]

    def call(self, inputs, states, training=None):
        state, _ = self.step.forward(self.project_inputs(inputs), states[0], self.parameters())
        return state[:, : self.units], [state]

    def get_initial_state(self, batch_size=None):
        """h_0 = c_0 = 0, a list of one tensor `(batch_size, 2 * units)`."""
        return [ops.zeros((batch_size, 2 * self.units), dtype=self.compute_dtype)]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
        }
