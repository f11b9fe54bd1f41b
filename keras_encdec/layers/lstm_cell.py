"""Long short-term memory cell."""

import keras
from keras import ops

from keras_encdec.layers.recurrent_cell import RecurrentCell
from keras_encdec.layers.recurrent_steps import LSTMStep


@keras.saving.register_keras_serializable(package="keras_encdec")
class LSTMCell(RecurrentCell):
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

    gates = 4

    def __init__(self, units, kernel_initializer=None, recurrent_initializer=None, **kwargs):
        super().__init__(units, kernel_initializer, recurrent_initializer, **kwargs)
        self.step = LSTMStep()
        self.state_size = 2 * units

    def bias_initializer(self, shape, dtype=None):
        """Zeros, and ones for the forget gate, which is open at first."""
        units = self.units
        return ops.concatenate([ops.zeros(units, dtype), ops.ones(units, dtype), ops.zeros(2 * units, dtype)])
