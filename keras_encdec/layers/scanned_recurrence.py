"""A recurrence over sequences of any length, and its back-propagation through time, as two loops."""

import keras
from keras import ops

from keras_encdec.layers.recurrence import UNROLLED_STEPS, run_recurrence


def run_through_time(step, parameters, inputs, initial_state, mask=None):
    """Applies `step` along time, as `run_recurrence` does, with a gradient that XLA can compile at any length.

    Stacked layers over sentences, written out step by step, take long to compile; and XLA cannot differentiate
    the loop of `ops.scan` under TensorFlow. Here the way back is a loop of its own, and the gradient of the
    recurrent matrix one product after it.

    Args:
        step: `LSTMStep`, `RNNStep` or `GRUStep`.
        parameters: list of tensors, the step's.
        inputs: tensor `(batch, time, features)`.
        initial_state: tensor `(batch, width)`.
        mask: boolean tensor `(batch, time)`, false where padded: the step keeps the state it finds.
            Defaults to `None`: no padding.

    Returns:
        tensor `(batch, time, width)`: the state after every step.
    """
    initial_state = ops.cast(initial_state, inputs.dtype)
    if _step_by_step(inputs.shape[1]):
        return run_recurrence(step, parameters, inputs, initial_state, mask)
    keep = [] if mask is None else [ops.cast(ops.expand_dims(mask, -1), inputs.dtype)]

    @ops.custom_gradient
    def states_of(inputs, initial_state, *others):
        keep, parameters = [_by_time(one) for one in others[: mask is not None]], others[mask is not None :]
        inputs_by_time = _by_time(inputs)
        times = ops.arange(ops.shape(inputs)[1], dtype="int32")

        def forward(carry, t):
            new, saved = step.forward(inputs_by_time[t], carry[0], parameters)
            if keep:
                new = ops.where(keep[0][t] > 0, new, carry[0])
            return (_in_dtype((new, saved), inputs.dtype),) * 2

        _, (states, saved) = ops.scan(forward, _like(forward((initial_state, None), 0)[0], initial_state), times)

        def gradient(upstream):
            upstream_by_time = _by_time(upstream)
            before = ops.concatenate([ops.expand_dims(initial_state, 0), states[:-1]], axis=0)

            def backward(carry, t):
                d_new = carry[0] + upstream_by_time[t]
                kept = d_new * keep[0][t] if keep else d_new
                saved_now = keras.tree.map_structure(lambda one: one[t], saved)
                d_input, d_state, factors = step.backward(kept, before[t], saved_now, parameters)
                if keep:
                    d_state = d_state + d_new - kept
                return (_in_dtype((d_state, d_input, factors), inputs.dtype),) * 2

            d_last = ops.zeros_like(initial_state)
            first = _like(backward((d_last,), 0)[0], d_last)
            (d_initial, _, _), (_, d_inputs, factors) = ops.scan(backward, first, times, reverse=True)
            # All steps as one of so many more rows.
            rows = keras.tree.map_structure(lambda one: ops.reshape(one, (-1, one.shape[-1])), factors)
            gradients = [_by_time(d_inputs), d_initial, *map(ops.zeros_like, others[: mask is not None])]
            gradients += step.parameter_gradients([rows])
            # JAX wants them in their arguments' dtypes, and some of Keras's functions narrow.
            return tuple(
                ops.cast(gradient, argument.dtype)
                for gradient, argument in zip(gradients, (inputs, initial_state, *others), strict=True)
            )

        return _by_time(states), gradient

    # TensorFlow wants tensors here, not variables; a reshape to the same shape is the tensor itself.
    return states_of(inputs, initial_state, *keep, *(ops.reshape(p, (-1, p.shape[1])) for p in parameters))


def _step_by_step(steps):
    """Whether so many steps, or `None` for an unknown number, are written out one by one."""
    if keras.backend.backend() == "torch":
        return True  # it runs them so in any case
    # Outside of a compiled function JAX compiles a loop anew at each call, but not the steps.
    return keras.backend.backend() == "jax" and steps is not None and steps <= UNROLLED_STEPS


def _in_dtype(tensors, dtype):
    """Tensors in the dtype of the loop, which some of Keras's functions have narrowed from float64."""
    return keras.tree.map_structure(lambda one: ops.cast(one, dtype), tensors)


def _by_time(tensor):
    """`(batch, time, width)` from `(time, batch, width)`, and back."""
    # Not ops.swapaxes, which forgets the rank where TensorFlow does not know the number of steps.
    return ops.transpose(tensor, (1, 0, 2))


def _like(carry, state):
    """What a loop begins with: the state, and zeros of the shapes of what a step, not used but for them, gave.

    Keras's scan gives for each step as much as it carries from one to the next, and no more.
    """
    return (state, *keras.tree.map_structure(ops.zeros_like, carry[1:]))
