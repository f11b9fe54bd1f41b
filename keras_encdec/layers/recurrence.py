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
    by_time = ops.swapaxes(inputs, 0, 1)
    kept = None if mask is None else ops.expand_dims(ops.swapaxes(mask, 0, 1), -1)

    def masked_step(state, now):
        features, keep = now
        new = step(features, state)
        return new if keep is None else ops.where(keep, new, state)

    steps = inputs.shape[1]
    # PyTorch runs eagerly: its scan is this same loop with more bookkeeping.
    if isinstance(steps, int) and (steps <= UNROLLED_STEPS or keras.backend.backend() == "torch"):
        states, state = [], initial_state
        for t in range(steps):
            state = masked_step(state, (by_time[t], None if kept is None else kept[t]))
            states.append(state)
        return ops.stack(states, axis=1)

    def scan_step(state, now):
        state = masked_step(state, now if kept is not None else (now, None))
        return state, state

    _, states = ops.scan(scan_step, initial_state, by_time if kept is None else (by_time, kept))
    return ops.swapaxes(states, 0, 1)
