"""One step of each gated hidden unit, forward and backward.

The inputs are projected, `(batch, 3 * units)`, and the state is `{"hidden": (batch, units)}`.
"""

from typing import Any

from keras import ops

from keras_encdec.layers.recurrent_step import RecurrentStep, summed_product


class GRUStep(RecurrentStep):
    """Step of `GRUCell`: parameters [U_r U_z] and U.

    Args:
        reset_after: bool.
    """

    def __init__(self, reset_after: bool) -> None:
        self.reset_after = reset_after

    def forward(
        self, inputs_t: Any, state: dict[str, Any], parameters: list[Any]
    ) -> tuple[dict[str, Any], tuple]:
        hidden, (gate_kernel, candidate_kernel) = state["hidden"], parameters
        units = hidden.shape[-1]
        gates = ops.sigmoid(inputs_t[:, : 2 * units] + ops.matmul(hidden, gate_kernel))
        r, z = gates[:, :units], gates[:, units:]
        if self.reset_after:
            recurrent = ops.matmul(hidden, candidate_kernel)
            candidate = ops.tanh(inputs_t[:, 2 * units :] + r * recurrent)
        else:
            recurrent = r * hidden
            candidate = ops.tanh(inputs_t[:, 2 * units :] + ops.matmul(recurrent, candidate_kernel))
        return {"hidden": candidate + z * (hidden - candidate)}, (r, z, candidate, recurrent)

    def backward(
        self, d_state: dict[str, Any], state: dict[str, Any], saved: tuple, parameters: list[Any]
    ) -> tuple[Any, dict[str, Any], Any]:
        hidden, d_new, (gate_kernel, candidate_kernel) = state["hidden"], d_state["hidden"], parameters
        r, z, candidate, recurrent = saved
        d_candidate = d_new * (1 - z) * (1 - candidate * candidate)
        d_z = d_new * (hidden - candidate) * z * (1 - z)
        if self.reset_after:
            d_r = d_candidate * recurrent * r * (1 - r)
            d_recurrent = d_candidate * r
            left, right = hidden, d_recurrent
            d_hidden = ops.matmul(d_recurrent, ops.transpose(candidate_kernel))
        else:
            d_reset = ops.matmul(d_candidate, ops.transpose(candidate_kernel))
            d_r = d_reset * hidden * r * (1 - r)
            left, right = recurrent, d_candidate
            d_hidden = d_reset * r
        d_gates = ops.concatenate([d_r, d_z], axis=-1)
        d_hidden = d_hidden + d_new * z + ops.matmul(d_gates, ops.transpose(gate_kernel))
        d_inputs = ops.concatenate([d_gates, d_candidate], axis=-1)
        return d_inputs, {"hidden": d_hidden}, [(hidden, d_gates), (left, right)]

    def parameter_gradients(self, factors: Any) -> list[Any]:
        return [summed_product(left, right) for left, right in factors]


class ContextGRUStep(RecurrentStep):
    """Step of `ContextGRUCell`: parameters [U_r U_z U] and c [C_r C_z C]."""

    def forward(
        self, inputs_t: Any, state: dict[str, Any], parameters: list[Any]
    ) -> tuple[dict[str, Any], tuple]:
        hidden, (kernel, projected_context) = state["hidden"], parameters
        units = hidden.shape[-1]
        recurrent = ops.matmul(hidden, kernel) + projected_context
        gates = ops.sigmoid(inputs_t[:, : 2 * units] + recurrent[:, : 2 * units])
        r, z = gates[:, :units], gates[:, units:]
        candidate = ops.tanh(inputs_t[:, 2 * units :] + r * recurrent[:, 2 * units :])
        return {"hidden": candidate + z * (hidden - candidate)}, (r, z, candidate, recurrent[:, 2 * units :])

    def backward(
        self, d_state: dict[str, Any], state: dict[str, Any], saved: tuple, parameters: list[Any]
    ) -> tuple[Any, dict[str, Any], Any]:
        hidden, d_new = state["hidden"], d_state["hidden"]
        r, z, candidate, recurrent = saved
        d_candidate = d_new * (1 - z) * (1 - candidate * candidate)
        d_z = d_new * (hidden - candidate) * z * (1 - z)
        d_r = d_candidate * recurrent * r * (1 - r)
        d_recurrent = ops.concatenate([d_r, d_z, d_candidate * r], axis=-1)
        d_hidden = d_new * z + ops.matmul(d_recurrent, ops.transpose(parameters[0]))
        return ops.concatenate([d_r, d_z, d_candidate], axis=-1), {"hidden": d_hidden}, (hidden, d_recurrent)

    def parameter_gradients(self, factors: Any) -> list[Any]:
        _, d_recurrent = factors
        return [summed_product(*factors), ops.sum(d_recurrent, axis=0)]
