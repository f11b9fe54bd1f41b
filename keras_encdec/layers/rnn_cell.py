"""Plain recurrent cell."""

import keras
from keras import ops

from keras_encdec.backend.gradients import summed_product
from keras_encdec.backend.types import State, Structure, Tensor
from keras_encdec.layers.recurrent_cell import RecurrentCell, RecurrentStep, register_cell


class RNNStep(RecurrentStep):
    """Step of `RNNCell`: parameter U. The inputs are projected; the state is `{"hidden": (batch, units)}`."""

    def forward(self, inputs_t: Tensor, state: State, parameters: list[Tensor]) -> tuple[State, Structure]:
        new = ops.tanh(inputs_t + ops.matmul(state["hidden"], parameters[0]))
        return {"hidden": new}, new

    def backward(
        self, d_state: State, state: State, saved: Structure, parameters: list[Tensor]
    ) -> tuple[Tensor, State, Structure]:
        d_sum = d_state["hidden"] * (1 - saved * saved)
        before = {"hidden": ops.matmul(d_sum, ops.transpose(parameters[0]))}
        return d_sum, before, (state["hidden"], d_sum)

    def parameter_gradients(self, factors: Structure) -> list[Tensor]:
        return [summed_product(*factors)]


@register_cell("rnn")
@keras.saving.register_keras_serializable(package="keras_encdec")
class RNNCell(RecurrentCell):
    """Recurrent unit without gates, one step.

        h = tanh(x W + h U + b)

    The cell runs in `keras.layers.RNN`. For a whole sequence, `project_inputs` once and then `run_recurrence` compute
    the same with far fewer products.

    Args:
        units: int. Number of hidden units.
        kernel_initializer: initializer of W. Defaults to N(0, 0.01).
        recurrent_initializer: initializer of U. Defaults to that of W.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of one tensor `(batch, units)`.

    Returns:
        tuple: the new state `(batch, units)`, and a list that holds it.

    Example:

    >>> import keras
    >>> tuple(keras.layers.RNN(RNNCell(4))(keras.ops.ones((2, 3, 5))).shape)
    (2, 4)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2; Elman, 1990
    """

    gate_symbols = ("",)
    step = RNNStep()
