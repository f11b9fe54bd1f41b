"""Long short-term memory cell."""

import keras
from keras import ops

from keras_encdec.backend.gradients import summed_product
from keras_encdec.backend.types import State, Structure, Tensor
from keras_encdec.layers.recurrent_cell import RecurrentCell, RecurrentStep, register_cell


class LSTMStep(RecurrentStep):
    """Step of `LSTMCell`: parameter [U_i U_f U_o U_g].

    The inputs are projected, `(batch, 4 * units)`; the state is h and c, "hidden" and "cell", `(batch, units)` each.
    """

    def forward(self, inputs_t: Tensor, state: State, parameters: list[Tensor]) -> tuple[State, Structure]:
        units = state["hidden"].shape[-1]
        sums = inputs_t + ops.matmul(state["hidden"], parameters[0])
        gates, candidate = ops.sigmoid(sums[:, : 3 * units]), ops.tanh(sums[:, 3 * units :])
        i, f, o = gates[:, :units], gates[:, units : 2 * units], gates[:, 2 * units :]
        cell = f * state["cell"] + i * candidate
        squashed = ops.tanh(cell)
        return {"hidden": o * squashed, "cell": cell}, (i, f, o, candidate, squashed)

    def backward(
        self, d_state: State, state: State, saved: Structure, parameters: list[Tensor]
    ) -> tuple[Tensor, State, Structure]:
        d_hidden = d_state["hidden"]
        i, f, o, candidate, squashed = saved
        d_cell = d_state["cell"] + d_hidden * o * (1 - squashed * squashed)
        d_sums = ops.concatenate(
            [
                d_cell * candidate * i * (1 - i),
                d_cell * state["cell"] * f * (1 - f),
                d_hidden * squashed * o * (1 - o),
                d_cell * i * (1 - candidate * candidate),
            ],
            axis=-1,
        )
        before = {"hidden": ops.matmul(d_sums, ops.transpose(parameters[0])), "cell": d_cell * f}
        return d_sums, before, (state["hidden"], d_sums)

    def parameter_gradients(self, factors: Structure) -> list[Tensor]:
        return [summed_product(*factors)]


@register_cell("lstm")
@keras.saving.register_keras_serializable(package="keras_encdec")
class LSTMCell(RecurrentCell):
    """Long short-term memory, one step.

        i = sigmoid(x W_i + h U_i + b_i)
        f = sigmoid(x W_f + h U_f + b_f)
        o = sigmoid(x W_o + h U_o + b_o)
        g = tanh(x W_g + h U_g + b_g)
        c = f * c + i * g
        h = o * tanh(c)

    The state is h and c, as in `keras.layers.LSTMCell`. The gates are in the order of the equations, which is not the
    order of Keras.

    The thesis has no biases. b_f starts at one, as in `keras.layers.LSTMCell`, so that the cell keeps its memory until
    the gate has learned otherwise (Jozefowicz et al., 2015). The other biases start at zero.

    The cell runs in `keras.layers.RNN`. For a whole sequence, `project_inputs` once and then `run_recurrence` compute
    the same with far fewer products.

    Args:
        units: int. Number of hidden units, and of memory cells.
        kernel_initializer: initializer of W_i, W_f, W_o, W_g. Defaults to N(0, 0.01).
        recurrent_initializer: initializer of U_i, U_f, U_o, U_g. Defaults to that of the W matrices.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of h and c, tensors `(batch, units)`.

    Returns:
        tuple: the new h `(batch, units)`, and a list of it and the new c.

    Example:

    >>> import keras
    >>> tuple(keras.layers.RNN(LSTMCell(4))(keras.ops.ones((2, 3, 5))).shape)
    (2, 4)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2; Zaremba et al., 2014
          (arXiv 1409.2329), section 3.1
    """

    gates = 4
    gate_symbols = ("i", "f", "o", "g")

    step = LSTMStep()

    @property
    def state_widths(self) -> dict[str, int]:
        return {"hidden": self.units, "cell": self.units}

    def bias_initializer(self, shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        """Returns zeros, and ones for the forget gate, which starts open."""
        units = self.units
        return ops.concatenate([ops.zeros(units, dtype), ops.ones(units, dtype), ops.zeros(2 * units, dtype)])
