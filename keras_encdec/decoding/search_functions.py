"""What a search computes on the device, compiled."""

from collections.abc import Hashable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import compiled_call
from keras_encdec.decoding.ensemble import Ensemble
from keras_encdec.decoding.sampler import Sampler


class SearchFunctions:
    """An ensemble's start, and its step with a sampler's, compiled.

    Args:
        ensemble: Ensemble.

    Attributes:
        start: callable, see `Ensemble.start`.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self.start = compiled_call(_Start(ensemble))
        self._steps: dict[Hashable, Any] = {}

    def step(
        self,
        sampler: Sampler,
        words: Any,
        search: dict[str, Any],
        state: dict[str, Any],
        memory: dict[str, Any],
        draws: np.ndarray | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Takes a step, compiled once for all samplers of one `step_key`.

        Args:
            sampler: Sampler.
            words: int32 `(sources, rows)`, the words before; 0 at the beginning.
            search: see `Sampler.step`.
            state, memory: see `Ensemble.next_log_probs`.
            draws: see `Sampler.step`. Optional.

        Returns:
            tuple: the fields of the `Choice` that are not `None`, the new search, and the new state.
        """
        if sampler.step_key not in self._steps:
            self._steps[sampler.step_key] = compiled_call(_Step(self._ensemble, sampler))
        inputs = {} if draws is None else {"draws": draws}
        return self._steps[sampler.step_key](words, search, state, memory, inputs)


class _Start(keras.layers.Layer):
    def __init__(self, ensemble) -> None:
        super().__init__(name="start", dtype="float32", autocast=False)
        self.ensemble = ensemble
        self.built = True

    def call(self, source):
        return self.ensemble.start(source)


class _Step(keras.layers.Layer):
    def __init__(self, ensemble, sampler) -> None:
        # The state has dtypes of its own.
        super().__init__(name="step", dtype="float32", autocast=False)
        self.ensemble, self.sampler = ensemble, sampler
        self.built = True

    def call(self, words, search, state, memory, inputs):
        log_probs, state = self.ensemble.next_log_probs(ops.reshape(words, (-1,)), state, memory)
        choice, search = self.sampler.step(ops.cast(log_probs, "float32"), search, **inputs)
        return {name: value for name, value in choice._asdict().items() if value is not None}, search, state
