"""The loop over time that the recurrent layers share."""

import keras
from keras import ops

# Up to this many steps a loop is written out, so that a compiler sees every step; beyond it the
# graph would grow with the sentence. Phrases of up to 7 words and their end of sequence fit.
UNROLLED_STEPS = 16


def run_recurrence(step, parameters, inputs, initial_state, mask=None):
    """Applies `step` along time; a masked step keeps the state it finds.

    Args:
        step: `GRUStep` or `ContextGRUStep`.
        parameters: list of tensors, the step's.
        inputs: tensor `(batch, time, features)`.
        initial_state: tensor `(batch, units)`.
        mask: boolean tensor `(batch, time)`, false where padded. Defaults to `None`: no padding.

    Returns:
        tensor `(batch, time, units)`: the state after every step.
    """
    steps = inputs.shape[1]
    # PyTorch runs eagerly: its scan is this same loop with more bookkeeping.
    if isinstance(steps, int) and (steps <= UNROLLED_STEPS or keras.backend.backend() == "torch"):
        return _unrolled(step, parameters, inputs, initial_state, mask)
    features = inputs.shape[-1]
    if mask is not None:
        # One tensor to loop over: Keras's scan refuses two where TensorFlow does not know their length.
        inputs = ops.concatenate([inputs, ops.cast(ops.expand_dims(mask, -1), inputs.dtype)], axis=-1)

    def masked_step(state, now):
        new, _ = step.forward(now[:, :features], state, parameters)
        return new if mask is None else ops.where(now[:, features:] > 0, new, state)

    # Not ops.swapaxes, which forgets the rank where TensorFlow does not know the number of steps.
    by_time = ops.transpose(inputs, (1, 0, 2))
    _, states = ops.scan(lambda state, now: (masked_step(state, now),) * 2, initial_state, by_time)
    return ops.transpose(states, (1, 0, 2))


def _unrolled(step, parameters, inputs, initial_state, mask):
    """States of a recurrence of known length, and its back-propagation through time.

    Left to automatic differentiation, each step makes its own gradient of the recurrent matrix, a
    product of `batch` rows, and adds it to that of the others, and slices of the inputs become padded
    arrays that are added up. Here the matrices' gradient is one product over all steps.
    """
    steps = inputs.shape[1]
    keep = [] if mask is None else [ops.cast(ops.expand_dims(mask, -1), inputs.dtype)]

    @ops.custom_gradient
    def states_of(inputs, initial_state, *others):
        keep, parameters = others[: mask is not None], others[mask is not None :]
        states, saved = [initial_state], []
        for t in range(steps):
            state, kept = step.forward(inputs[:, t], states[-1], parameters)
            if keep:
                state = ops.where(keep[0][:, t] > 0, state, states[-1])
            states.append(state)
            saved.append(kept)

        def gradient(*arguments, upstream=None):
            # PyTorch hands over the arguments again, and the gradient by name.
            upstream = arguments[0] if upstream is None else upstream
            d_state = ops.zeros_like(initial_state)
            d_inputs, factors = [None] * steps, [None] * steps
            for t in reversed(range(steps)):
                d_new = d_state + upstream[:, t]
                kept = d_new * keep[0][:, t] if keep else d_new
                d_inputs[t], d_state, factors[t] = step.backward(kept, states[t], saved[t], parameters)
                if keep:
                    d_state = d_state + d_new - kept
            gradients = [ops.stack(d_inputs, axis=1), d_state, *map(ops.zeros_like, keep)]
            gradients += step.parameter_gradients(factors)
            # JAX wants them in their arguments' dtypes, and some of Keras's functions narrow.
            return tuple(
                ops.cast(gradient, argument.dtype)
                for gradient, argument in zip(gradients, (inputs, initial_state, *others), strict=True)
            )

        return ops.stack(states[1:], axis=1), gradient

    # TensorFlow wants tensors here, not variables; a reshape to the same shape is the tensor itself.
    return states_of(inputs, initial_state, *keep, *(ops.reshape(p, (-1, p.shape[1])) for p in parameters))
