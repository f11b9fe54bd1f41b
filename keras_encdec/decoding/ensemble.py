"""Ensembles of models, and the compiled functions by which a search calls them."""

import functools
import math
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import BatchReduction, LayerFunction, compiled_call
from keras_encdec.backend.types import Memory, SearchState, State, Structure, Tensor
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search_batches import Candidates, words_of_columns
from keras_encdec.formats.fields import LARGEST
from keras_encdec.models.contract import Decoder
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.models.word_tables import NO_TABLES, WordTables, looking_up, tables_of

#: The states, or the memories, of the models of an ensemble, by the number of the model: "0", "1", and so on.
EnsembleState: TypeAlias = dict[str, State]
EnsembleMemory: TypeAlias = dict[str, Memory]
#: The output weights of candidate words of each model, see `Decoder.candidate_weights`.
EnsembleCandidates: TypeAlias = dict[str, dict[str, Tensor]]


class Ensemble(keras.layers.Layer):
    """Models whose probabilities of the next word are averaged; a single model is an ensemble of one.

        arithmetic   p(y) = sum_m w_m p_m(y)
        geometric    p(y) = prod_m p_m(y)^w_m / sum_y' prod_m p_m(y')^w_m

    The state is a dict of the models' states by number ("0", "1", ...); the memory is a dict of their memories.

    Args:
        models: list of models that implement the decoder contract, with the same vocabularies.
        weights: list of positive floats, which are divided by their sum. Defaults to `None`: equal weights.
        average: "arithmetic" or "geometric". Defaults to "arithmetic".

    Raises:
        ValueError: for no models, for vocabularies of different sizes, and for weights that are not one positive number
            for each model.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), section 2.3: ensembles
    """

    def __init__(
        self, models: Sequence[TranslationModel], weights: Sequence[float] | None = None, average: str = "arithmetic"
    ) -> None:
        super().__init__(name="ensemble", dtype="float32")
        if not models:
            raise ValueError("found no models, expected at least one")
        words = [(model.source_words, model.target_words) for model in models]
        if len(set(words)) > 1:
            raise ValueError(
                f"found models with (source, target) words {words}, expected the same numbers in all models"
            )
        weights = [1.0] * len(models) if weights is None else list(weights)
        if len(weights) != len(models) or not all(0 < weight <= LARGEST for weight in weights):
            raise ValueError(f"found the weights {weights}, expected {len(models)} positive numbers, up to {LARGEST:g}")
        if average not in ("arithmetic", "geometric"):
            raise ValueError(f'found average={average!r}, expected "arithmetic" or "geometric"')
        self.models = list(models)
        self.model_weights = [weight / sum(weights) for weight in weights]
        self.average = average
        self.built = True

    @property
    def decoders(self) -> list[Decoder]:
        """The decoders of the models."""
        return [model.decoder for model in self.models]

    def start(
        self, source: Tensor, characters: Sequence[Tensor] = (), tables: WordTables = NO_TABLES
    ) -> tuple[EnsembleState, EnsembleMemory]:
        """Encodes sources.

        Args:
            source: integer ids `(sources, time)`.
            characters: the spellings of rare words, for models that read characters, see `TranslationModel.encode`.
                Defaults to none.
            tables: word tables of the models, see `WordTableCache`. Defaults to none.

        Returns:
            tuple of the initial state and the memory, each a dict with that of each model.
        """
        state, memory = {}, {}
        for number, model in enumerate(self.models):
            with looking_up(model.encoder, tables_of(tables, number, "encoder")):
                state[str(number)], memory[str(number)] = model.start(source, characters)
        return state, memory

    def candidate_weights(self, words: Tensor, allowed: Tensor) -> EnsembleCandidates:
        """Takes the output weights of candidate words of each model, see `Decoder.candidate_weights`."""
        return {
            str(number): model.decoder.candidate_weights(words, allowed) for number, model in enumerate(self.models)
        }

    def next_log_probs(
        self,
        previous: Tensor,
        state: EnsembleState,
        memory: EnsembleMemory,
        source_of_row: Tensor | None = None,
        candidates: EnsembleCandidates | None = None,
        tables: WordTables = NO_TABLES,
    ) -> tuple[Tensor, EnsembleState]:
        """Computes ln p of every id as the next word, and the next state; see `Decoder.next_log_probs`.

        Args:
            previous: integer ids `(rows,)`, the previous word; 0 at the beginning.
            state: dict with the state of each model, all with the same number of rows.
            memory: dict with the memory of each model, from `start`.
            source_of_row: int32 tensor `(rows,)`. Defaults to `None`: rows grouped evenly, see `Decoder`.
            candidates: dict with the output weights of each model, from `candidate_weights`. Defaults to `None`: all
                words may follow.
            tables: see `start`. Defaults to none.

        Returns:
            tuple of ln p in nats, float tensor `(rows, vocabulary)`, or `(rows, candidates)`, and the new state.
        """
        log_probs, new = [], {}
        for number, decoder in enumerate(self.decoders):
            key = str(number)
            with looking_up(decoder, tables_of(tables, number, "decoder")):
                model_log_probs, new[key] = decoder.next_log_probs(
                    previous, state[key], memory[key], source_of_row, candidates[key] if candidates else None
                )
            log_probs.append(model_log_probs)
        return self._averaged(log_probs), new

    @property
    def has_attention(self) -> bool:
        """Whether one of the models has attention."""
        return any(model.decoder.has_attention for model in self.models)

    def attention(self, state: EnsembleState) -> Tensor:
        """Averages the last step's attention over the models that have attention: float32 `(rows, source_time)`."""
        weighted = [
            (weight, state[str(number)]["attention"])
            for number, (model, weight) in enumerate(zip(self.models, self.model_weights, strict=True))
            if model.decoder.has_attention
        ]
        total = sum(weight for weight, _ in weighted)
        return sum(weight / total * ops.cast(attention, "float32") for weight, attention in weighted)

    def _averaged(self, log_probs: Sequence[Tensor]) -> Tensor:
        if len(log_probs) == 1:
            return log_probs[0]
        weighted = list(zip(self.model_weights, log_probs, strict=True))
        if self.average == "geometric":
            return ops.log_softmax(sum(weight * values for weight, values in weighted), axis=-1)
        return ops.logsumexp(ops.stack([math.log(weight) + values for weight, values in weighted]), axis=0)


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
        #: Function `(previous, words, state, memory, tables)`: ln p of words `(sources, rows)`, and the next state.
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
        """Takes a step, compiled once for all samplers with the same `step_key`.

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
