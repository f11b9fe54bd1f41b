"""Prunes a model while it is trained, step by step."""

import math

import keras

from keras_encdec.backend.training_step import sync_training_state
from keras_encdec.pruning.masked_training import PruningMasks
from keras_encdec.trainers.budget import Budget

# The share of the training after which the last weights are pruned; the rest trains those that are left.
END = 0.75
# Number of times that more weights are pruned.
STEPS = 100


class GradualPruning(keras.callbacks.Callback):
    """Prunes more and more of the smallest weights during a training.

        s(d) = s_f + (s_0 - s_f) (1 - d / 0.75)^3   while d < 0.75, then s_f

    d is the share of the training that is done, s_0 the share pruned at its beginning. The masks change in 100 steps,
    after an update. This callback must come after `Budget`, and before `Checkpoints`.

    Args:
        masks: PruningMasks of the model.
        budget: Budget, for d.
        share: float. s_f.
        scheme: str. See `pruning_masks`.

    Reference:
        - Zhu and Gupta, 2017 (arXiv 1710.01878), equation 1
    """

    def __init__(self, masks: PruningMasks, budget: Budget, share: float, scheme: str) -> None:
        super().__init__()
        self._masks, self._budget, self._share, self._scheme = masks, budget, share, scheme
        self._step = 0

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._step = self._now()

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if (step := self._now()) != self._step:
            self._step = step
            sync_training_state(self.model)
            share = cubic_share(step / STEPS, self._masks.first_share, self._share)
            if share > self._masks.share:
                self._masks.prune(share, self._scheme)

    def _now(self) -> int:
        return min(STEPS, math.floor(STEPS * self._budget.done / END))


def cubic_share(done: float, first: float, last: float) -> float:
    """Computes the share to prune when a share `done` of the pruning is done, 0 to 1; see `GradualPruning`.

    Example:

    >>> [round(cubic_share(done, 0.0, 0.8), 3) for done in (0, 0.25, 0.5, 1)]
    [0.0, 0.463, 0.7, 0.8]
    """
    return last + (first - last) * (1 - done) ** 3
