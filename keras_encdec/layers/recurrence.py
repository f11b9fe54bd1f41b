"""The loop over time that the recurrent layers share."""

import keras
from keras import ops

# Up to this many steps a loop is written out, so that a compiler sees every step; beyond it the
# graph would grow with the sentence. Phrases of up to 7 words and their end of sequence fit.
UNROLLED_STEPS = 16


def run_recurrence(step, inputs, initial_state, mask=None):
    """Applies `step` along time; a masked step keeps the state it finds.

    Args:
        step: callable `(input (batch, features), state (batch, units)) -> state (batch, units)`.
        inputs: tensor `(batch, time, features)`.
        initial_state: tensor `(batch, units)`.
        mask: boolean tensor `(batch, time)`, false where padded. Defaults to `None`: no padding.

    Returns:
        tensor `(batch, time, units)`: the state after every step.
    """
    features = inputs.shape[-1]
    if mask is not None:
        # One tensor to loop over: Keras's scan refuses two where TensorFlow does not know their length.
        inputs = ops.concatenate([inputs, ops.cast(ops.expand_dims(mask, -1), inputs.dtype)], axis=-1)

    def masked_step(state, now):
        new = step(now[:, :features], state)
        return new if mask is None else ops.where(now[:, features:] > 0, new, state)

    # Not ops.swapaxes, which forgets the rank where TensorFlow does not know the number of steps.
    by_time = ops.transpose(inputs, (1, 0, 2))
    steps = inputs.shape[1]
    # PyTorch runs eagerly: its scan is this same loop with more bookkeeping.
    if isinstance(steps, int) and (steps <= UNROLLED_STEPS or keras.backend.backend() == "torch"):
        states, state = [], initial_state
        for t in range(steps):
            state = masked_step(state, by_time[t])
            states.append(state)
        return ops.stack(states, axis=1)
    _, states = ops.scan(lambda state, now: (masked_step(state, now),) * 2, initial_state, by_time)
    return ops.transpose(states, (1, 0, 2))
