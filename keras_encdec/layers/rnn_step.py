"""One step of the plain recurrent unit, forward and backward."""

from typing import Any

from keras import ops

from keras_encdec.layers.recurrent_step import RecurrentStep, summed_product


class RNNStep(RecurrentStep):
    """Step of `RNNCell`: parameter U. The inputs are projected; the state is `{"hidden": (batch, units)}`."""

    def forward(
        self, inputs_t: Any, state: dict[str, Any], parameters: list[Any]
    ) -> tuple[dict[str, Any], tuple]:
        new = ops.tanh(inputs_t + ops.matmul(state["hidden"], parameters[0]))
        return {"hidden": new}, new

    def backward(
        self, d_state: dict[str, Any], state: dict[str, Any], saved: tuple, parameters: list[Any]
    ) -> tuple[Any, dict[str, Any], Any]:
        d_sum = d_state["hidden"] * (1 - saved * saved)
        before = {"hidden": ops.matmul(d_sum, ops.transpose(parameters[0]))}
        return d_sum, before, (state["hidden"], d_sum)

    def parameter_gradients(self, factors: Any) -> list[Any]:
        return [summed_product(*factors)]
