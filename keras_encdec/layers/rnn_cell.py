"""Plain recurrent cell."""

import keras

from keras_encdec.layers.cells import register_cell
from keras_encdec.layers.recurrent_cell import RecurrentCell
from keras_encdec.layers.rnn_step import RNNStep


@register_cell("rnn")
@keras.saving.register_keras_serializable(package="keras_encdec")
class RNNCell(RecurrentCell):
    """Recurrent unit without gates, one step.

        h = tanh(x W + h U + b)

    Runs in `keras.layers.RNN`; over a whole sequence, `project_inputs` once and `run_recurrence` does the same with
    far fewer products.

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

    gate_symbols = ("",)
    step = RNNStep()
