"""One step of each gated hidden unit, forward and backward.

`forward` takes the projected inputs `(batch, 3 * units)`, the state `(batch, units)` and the parameters,
and gives the new state and what `backward` needs again. `backward` takes the gradient of the new state,
the old state, that, and the parameters; it gives the gradients of the projected inputs and of the old
state, and the factors of the parameters' gradient, which `parameter_gradients` takes of all steps.
"""

from keras import ops


class GRUStep:
    """Step of `GRUCell`: parameters [U_r U_z] and U.

    Args:
        reset_after: bool.
    """

    def __init__(self, reset_after):
        self.reset_after = reset_after

    def forward(self, now, state, parameters):
        gate_kernel, candidate_kernel = parameters
        units = state.shape[-1]
        gates = ops.sigmoid(now[:, : 2 * units] + ops.matmul(state, gate_kernel))
        r, z = gates[:, :units], gates[:, units:]
        if self.reset_after:
            recurrent = ops.matmul(state, candidate_kernel)
            candidate = ops.tanh(now[:, 2 * units :] + r * recurrent)
        else:
            recurrent = r * state
            candidate = ops.tanh(now[:, 2 * units :] + ops.matmul(recurrent, candidate_kernel))
        return candidate + z * (state - candidate), (r, z, candidate, recurrent)

    def backward(self, d_new, state, saved, parameters):
        gate_kernel, candidate_kernel = parameters
        r, z, candidate, recurrent = saved
        d_candidate = d_new * (1 - z) * (1 - candidate * candidate)
        d_z = d_new * (state - candidate) * z * (1 - z)
        if self.reset_after:
            d_r = d_candidate * recurrent * r * (1 - r)
            d_recurrent = d_candidate * r
            left, right = state, d_recurrent
            d_state = ops.matmul(d_recurrent, ops.transpose(candidate_kernel))
        else:
            d_reset = ops.matmul(d_candidate, ops.transpose(candidate_kernel))
            d_r = d_reset * state * r * (1 - r)
            left, right = recurrent, d_candidate
            d_state = d_reset * r
        d_gates = ops.concatenate([d_r, d_z], axis=-1)
        d_state = d_state + d_new * z + ops.matmul(d_gates, ops.transpose(gate_kernel))
        return ops.concatenate([d_gates, d_candidate], axis=-1), d_state, ((state, d_gates), (left, right))

    def parameter_gradients(self, factors):
        return [summed_product(pairs) for pairs in zip(*factors, strict=True)]


class ContextGRUStep:
    """Step of `ContextGRUCell`: parameters [U_r U_z U] and c [C_r C_z C]."""

    def forward(self, now, state, parameters):
        kernel, projected_context = parameters
        units = state.shape[-1]
        recurrent = ops.matmul(state, kernel) + projected_context
        gates = ops.sigmoid(now[:, : 2 * units] + recurrent[:, : 2 * units])
        r, z = gates[:, :units], gates[:, units:]
        candidate = ops.tanh(now[:, 2 * units :] + r * recurrent[:, 2 * units :])
        return candidate + z * (state - candidate), (r, z, candidate, recurrent[:, 2 * units :])

    def backward(self, d_new, state, saved, parameters):
        r, z, candidate, recurrent = saved
        d_candidate = d_new * (1 - z) * (1 - candidate * candidate)
        d_z = d_new * (state - candidate) * z * (1 - z)
        d_r = d_candidate * recurrent * r * (1 - r)
        d_recurrent = ops.concatenate([d_r, d_z, d_candidate * r], axis=-1)
        d_state = d_new * z + ops.matmul(d_recurrent, ops.transpose(parameters[0]))
        return ops.concatenate([d_r, d_z, d_candidate], axis=-1), d_state, (state, d_recurrent)

    def parameter_gradients(self, factors):
        return [summed_product(factors), sum(d_recurrent for _, d_recurrent in factors)]


def summed_product(pairs):
    """Sum over steps of left^T right, as one product."""
    lefts, rights = zip(*pairs, strict=True)
    return ops.matmul(ops.transpose(ops.concatenate(lefts, axis=0)), ops.concatenate(rights, axis=0))
