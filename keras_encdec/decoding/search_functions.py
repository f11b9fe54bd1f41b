"""What a search computes on the device, compiled."""

from collections.abc import Hashable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.batch_size import BatchReduction
from keras_encdec.backend.compiled_call import compiled_call
from keras_encdec.decoding.ensemble import Ensemble
from keras_encdec.decoding.sampler import Sampler

# Batches of fewer rows take no less time.
LEAST_ROWS = 48


class SearchFunctions:
    """An ensemble's start, and its step with a sampler's, compiled.

    Args:
        ensemble: Ensemble.

    Attributes:
        start: callable, see `Ensemble.start`.
        carries_attention: bool. See `Ensemble`.
        batches: BatchReduction, of the steps' batches.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self.start = compiled_call(_Start(ensemble))
        self.carries_attention = ensemble.carries_attention
        # About half of a model's weights are the decoder's, and few of these are of words that are only looked up.
        self.batches = BatchReduction(ensemble.count_params() // 2, LEAST_ROWS)
        self._steps: dict[Hashable, Any] = {}

    def step(
        self,
        sampler: Sampler,
        words: Any,
        search: dict[str, Any],
        state: dict[str, Any],
        memory: dict[str, Any],
        draws: np.ndarray | None = None,
        with_attention: bool = False,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Takes a step, compiled once for all samplers of one `step_key`.

        Args:
            sampler: Sampler.
            words: int32 `(sources, rows)`, the words before; 0 at the beginning.
            search: see `Sampler.step`.
            state, memory: see `Ensemble.next_log_probs`.
            draws: see `Sampler.step`. Optional.
            with_attention: bool. Whether the attention of each row is wanted. Defaults to `False`.

        Returns:
            tuple: the fields of the `Choice` that are not `None`, and "attention" `(sources, rows, source_time)` if it
            is wanted; the new search, and the new state.
        """
        key = sampler.step_key, with_attention
        if key not in self._steps:
            self._steps[key] = compiled_call(_Step(self._ensemble, sampler, with_attention))
        inputs = {} if draws is None else {"draws": draws}
        return self._steps[key](words, search, state, memory, inputs)


class _Start(keras.layers.Layer):
    def __init__(self, ensemble) -> None:
        super().__init__(name="start", dtype="float32", autocast=False)
        self.ensemble = ensemble
        self.built = True

    def call(self, source):
        return self.ensemble.start(source)


class _Step(keras.layers.Layer):
    def __init__(self, ensemble, sampler, with_attention) -> None:
        # The state has dtypes of its own.
        super().__init__(name="step", dtype="float32", autocast=False)
        self.ensemble, self.sampler, self.with_attention = ensemble, sampler, with_attention
        self.built = True

    def call(self, words, search, state, memory, inputs):
        log_probs, state = self.ensemble.next_log_probs(ops.reshape(words, (-1,)), state, memory)
        attention = None
        if self.with_attention or self.sampler.needs_attention:
            attention = self.ensemble.attention(state)
            attention = ops.reshape(attention, (*ops.shape(words), ops.shape(attention)[-1]))
        if self.sampler.needs_attention:
            inputs = {**inputs, "attention": attention}
        choice, search = self.sampler.step(ops.cast(log_probs, "float32"), search, **inputs)
        chosen = {name: value for name, value in choice._asdict().items() if value is not None}
        return {**chosen, "attention": attention} if self.with_attention else chosen, search, state
