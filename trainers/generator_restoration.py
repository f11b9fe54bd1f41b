"""The generator of a training that goes on, as it was when the training stopped."""

from collections.abc import Mapping

import keras
import numpy as np

from keras_encdec.backend.random import set_generator_state


class GeneratorRestoration(keras.callbacks.Callback):
    """Puts the state of the generator back before the first update, so that dropout goes on as it would have.

    Not sooner: PyTorch draws from it when it begins to read the batches, as it did at the start of the training.

    Args:
        state: dict, see `keras_encdec.backend.random.set_generator_state`.
    """

    def __init__(self, state: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self._state = state

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._is_restored = False

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if not self._is_restored:
            set_generator_state(self._state)
            self._is_restored = True
