"""What training shows: Keras's bar on a terminal, nothing elsewhere."""

import sys

import keras


class RoundProgress(keras.callbacks.ProgbarLogger):
    """Keras's progress bar under a line of our own, as a round is not an epoch.

    Args:
        budget: Budget.
        updates_per_epoch: int. Updates of a pass over the pairs.
    """

    def __init__(self, budget, updates_per_epoch):
        super().__init__()
        self._budget, self._updates_per_epoch = budget, updates_per_epoch

    def set_params(self, params):
        super().set_params({**params, "verbose": int(sys.stdout.isatty()), "epochs": 1})

    def on_epoch_begin(self, epoch, logs=None):
        if self.verbose:
            budget = self._budget
            passes = budget.updates_done / self._updates_per_epoch
            share = f", {budget.done:.0%} of the training" if budget.done else ""
            done = f"{budget.updates_done:,} updates, {passes:.2f} epochs, {budget.seconds:,.0f} s"
            print(f"Round {epoch + 1}: {done}{share}")
        super().on_epoch_begin(epoch, logs)
