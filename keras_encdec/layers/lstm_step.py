"""One step of long short-term memory, forward and backward."""

from typing import Any

from keras import ops

from keras_encdec.layers.recurrent_step import RecurrentStep, summed_product


class LSTMStep(RecurrentStep):
    """Step of `LSTMCell`: parameter [U_i U_f U_o U_g].

    The inputs are projected, `(batch, 4 * units)`; the state is h and c, "hidden" and "cell", `(batch, units)` each.
    """

    def forward(
        self, inputs_t: Any, state: dict[str, Any], parameters: list[Any]
    ) -> tuple[dict[str, Any], tuple]:
        units = state["hidden"].shape[-1]
        sums = inputs_t + ops.matmul(state["hidden"], parameters[0])
        gates, candidate = ops.sigmoid(sums[:, : 3 * units]), ops.tanh(sums[:, 3 * units :])
        i, f, o = gates[:, :units], gates[:, units : 2 * units], gates[:, 2 * units :]
        cell = f * state["cell"] + i * candidate
        squashed = ops.tanh(cell)
        return {"hidden": o * squashed, "cell": cell}, (i, f, o, candidate, squashed)

    def backward(
        self, d_state: dict[str, Any], state: dict[str, Any], saved: tuple, parameters: list[Any]
    ) -> tuple[Any, dict[str, Any], Any]:
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

    def parameter_gradients(self, factors: Any) -> list[Any]:
        return [summed_product(*factors)]
