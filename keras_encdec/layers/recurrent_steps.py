"""One step of the LSTM and of the plain recurrent unit, forward and backward.

See `keras_encdec.layers.gru_steps` for what a step takes and gives. The state of the LSTM is one tensor
`(batch, 2 * units)`, the hidden state h and beside it the memory cell c.
"""

from keras import ops

from keras_encdec.layers.gru_steps import summed_product


class LSTMStep:
    """Step of `LSTMCell`: parameter [U_i U_f U_o U_g]."""

    def forward(self, now, state, parameters):
        units = state.shape[-1] // 2
        h, c = state[:, :units], state[:, units:]
        sums = now + ops.matmul(h, parameters[0])
        gates, candidate = ops.sigmoid(sums[:, : 3 * units]), ops.tanh(sums[:, 3 * units :])
        i, f, o = gates[:, :units], gates[:, units : 2 * units], gates[:, 2 * units :]
        cell = f * c + i * candidate
        squashed = ops.tanh(cell)
        return ops.concatenate([o * squashed, cell], axis=-1), (i, f, o, candidate, squashed)

    def backward(self, d_new, state, saved, parameters):
        units = state.shape[-1] // 2
        h, c = state[:, :units], state[:, units:]
        i, f, o, candidate, squashed = saved
        d_h = d_new[:, :units]
        d_c = d_new[:, units:] + d_h * o * (1 - squashed * squashed)
        d_sums = ops.concatenate(
            [
                d_c * candidate * i * (1 - i),
                d_c * c * f * (1 - f),
                d_h * squashed * o * (1 - o),
                d_c * i * (1 - candidate * candidate),
            ],
            axis=-1,
        )
        d_state = ops.concatenate([ops.matmul(d_sums, ops.transpose(parameters[0])), d_c * f], axis=-1)
        return d_sums, d_state, (h, d_sums)

    def parameter_gradients(self, factors):
        return [summed_product(factors)]


class RNNStep:
    """Step of `RNNCell`: parameter U."""

    def forward(self, now, state, parameters):
        new = ops.tanh(now + ops.matmul(state, parameters[0]))
        return new, (new,)

    def backward(self, d_new, state, saved, parameters):
        (new,) = saved
        d_sum = d_new * (1 - new * new)
        return d_sum, ops.matmul(d_sum, ops.transpose(parameters[0])), (state, d_sum)

    def parameter_gradients(self, factors):
        return [summed_product(factors)]
