"""The compiled functions that a search calls: the start of an ensemble, and its step together with a sampler's."""

import functools
import threading
from collections.abc import Callable, Hashable
from typing import TypeAlias

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import BatchReduction, LayerFunction, compiled_call
from keras_encdec.backend.types import SearchState, Structure, Tensor
from keras_encdec.decoding.ensemble import Ensemble, EnsembleMemory, EnsembleState
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search_batches import Candidates, words_of_columns
from keras_encdec.models.word_tables import WordTables

#: Candidate words as a step reads them: their ids, "words", and their output weights, "weights".
SearchCandidates: TypeAlias = dict[str, Structure]

# Batches smaller than this number of rows take no less time.
MIN_ROWS = 48


class SearchFunctions:
    """The compiled functions of a search: the ensemble's start, and its step together with a sampler's.

    Attributes:
        start: function, see `Ensemble.start`.
        has_attention: bool. See `Ensemble`.
        batches: BatchReduction, which decides when sources whose search is over are removed from the batch.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self.start = compiled_call(LayerFunction(ensemble.start, ensemble))
        self._candidate_weights = compiled_call(LayerFunction(ensemble.candidate_weights, ensemble))
        self.has_attention = ensemble.has_attention
        # A step multiplies by about half of a model's weights: those of the decoder, few of which are embeddings.
        self.batches = BatchReduction(ensemble.count_params() // 2, MIN_ROWS)
        #: Function `(previous, words, state, memory)`: ln p of given words `(sources, rows)`, and the next state.
        self.log_probs = compiled_call(LayerFunction(functools.partial(_log_probs, ensemble), ensemble))
        self._steps: dict[Hashable, Callable[..., Structure]] = {}
        self._making_step = threading.Lock()

    def step(
        self,
        sampler: Sampler,
        words: Tensor,
        search: SearchState,
        state: EnsembleState,
        memory: EnsembleMemory,
        draws: np.ndarray | None,
        with_attention: bool,
        candidates: SearchCandidates,
        tables: WordTables,
    ) -> tuple[dict[str, Tensor], SearchState, EnsembleState]:
        """Takes a step, compiled once for all samplers of one `step_key`.

        Args:
            sampler: Sampler.
            words: int32 `(sources, rows)`, the previous word of each row; 0 at the beginning.
            search: see `Sampler.step`.
            state, memory: see `Ensemble.next_log_probs`.
            draws: see `Sampler.step`.
            with_attention: bool. Whether to return the attention of each row.
            candidates: from `candidates`; empty if all words may follow.
            tables: word tables of the models, see `WordTableCache`.

        Returns:
            tuple of three dicts: the fields of the `Choice` that are not `None` and, `with_attention`, "attention"
            `(sources, rows, source_time)`; the new search; the new state.
        """
        key = sampler.step_key, with_attention
        with self._making_step:  # several batches are searched at the same time
            if key not in self._steps:
                self._steps[key] = compiled_call(_Step(self._ensemble, sampler, with_attention))
        inputs = {} if draws is None else {"draws": draws}
        return self._steps[key](words, search, state, memory, inputs, candidates, tables)

    def candidates(self, candidates: Candidates) -> SearchCandidates:
        """Takes the output weights of candidate words."""
        return {"words": candidates.words, "weights": self._candidate_weights(*candidates)}


def _log_probs(
    ensemble: Ensemble,
    previous: Tensor,
    words: Tensor,
    state: EnsembleState,
    memory: EnsembleMemory,
    tables: WordTables,
) -> tuple[Tensor, EnsembleState]:
    log_probs, state = ensemble.next_log_probs(ops.reshape(previous, (-1,)), state, memory, tables=tables)
    chosen = ops.take_along_axis(ops.cast(log_probs, "float32"), ops.reshape(words, (-1, 1)), axis=1)
    return ops.reshape(chosen, ops.shape(words)), state


class _Step(keras.layers.Layer):
    def __init__(self, ensemble: Ensemble, sampler: Sampler, with_attention: bool) -> None:
        super().__init__(name="step", dtype="float32", autocast=False)  # see `LayerFunction`
        self.ensemble, self.sampler, self.with_attention = ensemble, sampler, with_attention
        self.built = True

    def call(
        self,
        words: Tensor,
        search: SearchState,
        state: EnsembleState,
        memory: EnsembleMemory,
        inputs: dict[str, Tensor],
        candidates: SearchCandidates,
        tables: WordTables,
    ) -> tuple[dict[str, Tensor], SearchState, EnsembleState]:
        log_probs, state = self.ensemble.next_log_probs(
            ops.reshape(words, (-1,)), state, memory, candidates=candidates.get("weights"), tables=tables
        )
        attention = None
        if self.with_attention or self.sampler.needs_attention:
            attention = self.ensemble.attention(state)
            attention = ops.reshape(attention, (*ops.shape(words), ops.shape(attention)[-1]))
        if self.sampler.needs_attention:
            inputs = {**inputs, "attention": attention}
        choice, search = self.sampler.step(ops.cast(log_probs, "float32"), search, **inputs)
        if candidates:
            choice = choice._replace(words=words_of_columns(candidates["words"], choice.words))
        chosen = {name: value for name, value in choice._asdict().items() if value is not None}
        return {**chosen, "attention": attention} if self.with_attention else chosen, search, state
