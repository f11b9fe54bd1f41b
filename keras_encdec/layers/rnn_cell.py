"""Plain recurrent cell."""

import keras

from keras_encdec.layers.recurrent_cell import RecurrentCell
from keras_encdec.layers.recurrent_steps import RNNStep


@keras.saving.register_keras_serializable(package="keras_encdec")
class RNNCell(RecurrentCell):
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
        super().__init__(units, kernel_initializer, recurrent_initializer, **kwargs)
        self.step = RNNStep()
