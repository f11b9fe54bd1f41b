"""Target sequences for many sources."""

import math
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_encdec.backend.devices import warn_if_slow
from keras_encdec.configuration import ConfigurationError
from keras_encdec.data.batches import length_batches, pad
from keras_encdec.data.rare_word_batches import local_sources
from keras_encdec.decoding.candidates import (
    OWN_ROWS,
    SHARING_SOURCES,
    batch_candidates,
    candidates_needed,
    compiled_width,
    with_special_ids,
)
from keras_encdec.decoding.ensemble import Ensemble
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.sampler_registry import sampler_of
from keras_encdec.decoding.search import Hypothesis, Search, SearchFunctions, take
from keras_encdec.decoding.unknown_speller import UnknownSpeller
from keras_encdec.models.translation_model import TranslationModel, copy_weights, model_in_dtype
from keras_encdec.text.vocabulary import END, FIRST_WORD, PADDING

# Maximum target length per source word, and the limit in words for sources of a word or two, which may need more.
LENGTH_FACTOR, SHORTEST_LIMIT = 1.5, 10
# Higher limits are reduced to this number of words, as a search allocates memory for its limit.
LONGEST_LIMIT = 100_000


# Partial spellings of an unknown word that a beam search keeps.
CHARACTER_BEAM = 5

# Maximum number of target sequences in a batch, unless a single source needs more.
MOST_ROWS = 768
# Maximum number of source tokens in a batch, padding included, unless a single source has more.
MOST_TOKENS = 1 << 15


class Generator:
    """Generates target sequences with a model or an ensemble.

    Samplers with the same `step_key` share a compiled step.

    Args:
        models: a model that implements the decoder contract, or a list of such models.
        weights: list of float. See `Ensemble`. Optional.
        average: str. See `Ensemble`. Defaults to "arithmetic".
        dtype: str. Dtype of the computation, such as "float32" or "bfloat16"; log-probabilities are summed in float64.
            Defaults to `None`: each model's own compute dtype.

    Raises:
        ValueError: see `Ensemble`.

    Example:

    >>> from keras_encdec.models import RNNEncoderDecoder
    >>> model = RNNEncoderDecoder(20, 30, embedding_dim=4, units=8, maxout_units=4, output_rank=4)
    >>> [[best]] = Generator(model).generate([[5, 6, 2]])
    >>> best.ids[-1]
    2
    """

    def __init__(
        self,
        models: TranslationModel | Sequence[TranslationModel],
        weights: Sequence[float] | None = None,
        average: str = "arithmetic",
        dtype: str | None = None,
    ) -> None:
        models = list(models) if isinstance(models, Sequence) else [models]
        for model in models:
            warn_if_slow(dtype or model.compute_dtype)
        # Pairs of a model and its copy in the dtype of the computation. Each search first copies the weights, as the
        # model may have been trained further.
        self._computed = [(model, model_in_dtype(model, dtype or model.compute_dtype)) for model in models]
        ensemble = Ensemble([computed for _, computed in self._computed], weights, average)
        self._functions = SearchFunctions(ensemble)
        spells = [decoder.speller is not None for decoder in ensemble.decoders]
        if any(spells) != all(spells):
            raise ValueError("found models that spell unknown words and models that do not, expected only one kind")
        self._speller = UnknownSpeller(ensemble) if all(spells) else None
        self._source_ids = models[0].source_words + FIRST_WORD
        self._target_ids = models[0].target_words + FIRST_WORD
        self._candidate_widths: dict[tuple[int, int, bool], int] = {}

    def generate(
        self,
        sources: Sequence[Sequence[int]] | np.ndarray,
        sampler: Sampler | str = "greedy",
        max_length_factor: float = LENGTH_FACTOR,
        max_length: int | None = None,
        first: int = 0,
        with_attention: bool = False,
        candidates: Sequence[np.ndarray] | None = None,
        full_scores: bool = False,
        spellings: np.ndarray | None = None,
        character_beam: int = CHARACTER_BEAM,
    ) -> list[list[Hypothesis]]:
        """Generates target sequences.

        Args:
            sources: list of sequences of ids, each closed by the end of sequence, or integer array
                `(sources, time)`, padded with 0.
            sampler: `Sampler`, or the name of a registered one, with its default options. Defaults to "greedy".
            max_length_factor: float. Maximum number of target words per source word; 10 words are always allowed. The
                target of an empty source is empty. Defaults to `1.5`.
            max_length: int. Maximum number of target words, whatever the source, instead of `max_length_factor`.
                Defaults to `None`.
            first: int. Index of the first source in the whole input, on which samples depend. Defaults to `0`.
            with_attention: bool. Whether to return the attention with each hypothesis, averaged over the models that
                have attention. Defaults to `False`.
            candidates: list of int arrays, the ids that may be used in the targets of each source, besides the special
                ids. Probabilities are normalized over a source's own candidates. Defaults to `None`: all ids.
            full_scores: bool. With `candidates`, whether to score the hypotheses again, with all ids, and to rank them
                by these scores. Defaults to `False`.
            spellings: integer array `(words, 51)`, the spellings of the rare words of the sources, whose ids follow
                those of the shortlist, for models that read characters; see `OpenVocabulary`. Defaults to `None`.
            character_beam: int. Number of partial spellings of an unknown word that a beam search keeps, for models
                that spell words. Defaults to `5`.

        Returns:
            list with a list of Hypothesis for each source: the best first, or samples in the order in which they were
            drawn.

        Raises:
            ConfigurationError: a ValueError, if attention is needed and no model has any.
            ValueError: for a source that is not a sequence of the models' ids closed by the end of sequence, for an
                unknown sampler, for a limit out of range, and if a model returns NaN.
        """
        sampler = sampler_of(sampler)
        if (with_attention or sampler.needs_attention) and not self._functions.carries_attention:
            wanted = "with_attention" if with_attention else "coverage_penalty"
            raise ConfigurationError(f"found {{{wanted}}} with a model that has no attention; train one with attention")
        if not 0 <= max_length_factor < math.inf:
            raise ValueError(f"found max_length_factor={max_length_factor}, expected a number, 0 or more")
        if max_length is not None and max_length < 0:
            raise ValueError(f"found max_length={max_length}, expected 0 or more")
        source_ids = self._source_ids + (0 if spellings is None else len(spellings))
        sources = [_unpadded(source, source_ids) for source in sources]
        limits = [target_limit(len(source) - 1, max_length_factor, max_length) for source in sources]
        for model, computed in self._computed:
            if computed is not model:
                copy_weights(model, computed)
        results: list[list[Hypothesis]] = [[] for _ in sources]
        most_rows = max(1, MOST_ROWS // sampler.rows_per_source)
        shared = sampler.rows_per_source < OWN_ROWS
        if candidates is not None:
            candidates = _candidate_lists(candidates, len(sources), self._target_ids)
            most_rows = min(most_rows, SHARING_SOURCES) if shared else most_rows
        for indices, rows, width in length_batches([len(source) for source in sources], most_rows, MOST_TOKENS):
            # Batches come in few shapes. Empty sources fill them up: their searches end at the first step.
            filler = rows - len(indices)
            batch = pad([sources[index] for index in indices] + [[END]] * filler, width)
            batch_limits = np.array([limits[index] for index in indices] + [1] * filler)
            numbers = [first + index for index in indices] + [0] * filler
            batch_words = None
            if candidates is not None:
                words = [candidates[index] for index in indices] + [with_special_ids(np.arange(0))] * filler
                batch_words = batch_candidates(words, shared, self._candidate_width(width, words, shared))
            characters: list[np.ndarray] = []
            if spellings is not None:
                batch, characters = local_sources(batch, self._source_ids, spellings)
            search = Search(
                self._functions, sampler, batch, batch_limits, numbers, with_attention, batch_words, characters
            )
            found = search.run()
            if batch_words is not None and full_scores:
                found = with_full_scores(self._functions, sampler, batch, found, characters)
            for index, hypotheses in zip(indices, found, strict=False):
                if not hypotheses or any(math.isnan(hypothesis.log_prob) for hypothesis in hypotheses):
                    raise ValueError(
                        f"found log-probabilities that are NaN for the source {sources[index]}, expected numbers; "
                        "check whether the model's training diverged"
                    )
                results[index] = hypotheses
        if self._speller is not None:
            numbers = [first + index for index in range(len(sources))]
            results = self._speller.spelled(results, sources, spellings, sampler, character_beam, numbers)
        return results

    def _candidate_width(self, source_width: int, words: Sequence[np.ndarray], shared: bool) -> int:
        """Returns the width of candidates, the same for many batches of a source width, as each width is compiled."""
        key = source_width, len(words), shared
        needed = compiled_width(candidates_needed(words, shared), self._target_ids)
        self._candidate_widths[key] = max(needed, self._candidate_widths.get(key, 0))
        return self._candidate_widths[key]


def _candidate_lists(candidates: Sequence[np.ndarray], sources: int, ids: int) -> list[np.ndarray]:
    """Checks the candidates of each source, and adds the special ids."""
    if len(candidates) != sources:
        plural = "" if sources == 1 else "s"
        raise ValueError(
            f"found {len(candidates)} lists of candidates for {sources} source{plural}, expected one list for each "
            "source"
        )
    lists = [np.asarray(words, np.int64).reshape(-1) for words in candidates]
    for words in lists:
        if words.size and not 0 <= words.min() <= words.max() < ids:
            raise ValueError(f"found the candidates {words.min()} to {words.max()}, expected ids from 0 to {ids - 1}")
    return [with_special_ids(words) for words in lists]


def target_limit(source_length: int, max_length_factor: float = LENGTH_FACTOR, max_length: int | None = None) -> int:
    """Returns the maximum number of tokens of a target, the end of sequence included.

    Args:
        source_length: int. Number of words of the source, the end of sequence not counted.
        max_length_factor: float. Maximum number of target words per source word; 10 words are always allowed, except
            for an empty source, whose target is empty. Defaults to `1.5`.
        max_length: int. Maximum number of target words, whatever the source, instead of `max_length_factor`. Defaults
            to `None`.

    Returns:
        int, from 1 to 100,001.

    Example:

    >>> target_limit(20), target_limit(3), target_limit(0), target_limit(20, max_length=5)
    (31, 11, 1, 6)
    >>> target_limit(20, 1e308), target_limit(20, max_length=10**14)
    (100001, 100001)
    """
    if max_length is not None:
        return min(max_length, LONGEST_LIMIT) + 1
    longest = min(max_length_factor * source_length, LONGEST_LIMIT)
    return max(SHORTEST_LIMIT, math.ceil(longest)) + 1 if source_length else 1


def _unpadded(source: Sequence[int] | np.ndarray, ids: int) -> list[int]:
    """Checks a source, and returns its ids without padding."""
    if not np.iterable(source):
        raise ValueError(f"found the source {source}, expected a sequence of ids: give a list of sources")
    source = [int(i) for i in source]
    while source and source[-1] == PADDING:
        source.pop()
    if not source or source[-1] != END or not {PADDING, END}.isdisjoint(source[:-1]):
        raise ValueError(f"found the source {source}, expected ids closed by one end of sequence, {END}")
    if not 0 <= min(source) <= max(source) < ids:
        raise ValueError(f"found the source {source}, expected ids below {ids}, those of the model's vocabulary")
    return source


def with_full_scores(
    functions: SearchFunctions,
    sampler: Sampler,
    source: np.ndarray,
    found: Sequence[Sequence[Hypothesis]],
    characters: Sequence[np.ndarray] = (),
) -> list[list[Hypothesis]]:
    """Computes ln p of hypotheses again, with the probabilities of all words, and ranks them by the new scores.

    Args:
        functions: SearchFunctions.
        sampler: Sampler that found them.
        source: int32 array `(sources, time)`, padded ids.
        found: the hypotheses of each source.
        characters: see `SearchFunctions.start`. Defaults to no characters.

    Returns:
        list with a list of hypotheses for each source, the best first; samples keep their order.
    """
    most = max(map(len, found))
    targets = [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]
    steps = max((len(ids) for each in targets for ids in each), default=0)
    # The shapes are those of the search, in which missing hypotheses are padding.
    ids = np.zeros((len(source), most, steps), np.int32)
    for row, each in zip(ids, targets, strict=True):
        for column, target in zip(row, each, strict=False):
            column[: len(target)] = target
    state, memory = functions.start(source, characters)
    state = take(state, np.repeat(np.arange(len(source)), most))
    previous, totals = np.zeros((len(source), most), np.int32), np.zeros((len(source), most))
    for step in range(steps):
        words = ids[:, :, step]
        log_probs, state = functions.log_probs(previous, words, state, memory)
        totals += np.where(words != 0, ops.convert_to_numpy(log_probs), 0.0)
        previous = words
    rescored = [
        [_rescored(hypothesis, float(total), sampler) for hypothesis, total in zip(hypotheses, row, strict=False)]
        for hypotheses, row in zip(found, totals, strict=True)
    ]
    if sampler.needs_draws:
        return rescored
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in rescored]


def _rescored(hypothesis: Hypothesis, log_prob: float, sampler: Sampler) -> Hypothesis:
    gain = log_prob - hypothesis.log_prob
    return hypothesis._replace(
        log_prob=log_prob, score=hypothesis.score + sampler.score_gain(gain, len(hypothesis.ids))
    )
