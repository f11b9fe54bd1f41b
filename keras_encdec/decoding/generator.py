"""Target sequences for many sources."""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from keras_encdec.backend.compiled_call import call_threads
from keras_encdec.backend.devices import backend_name
from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding.ensemble import Ensemble, SearchFunctions
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.sampler_registry import sampler_of
from keras_encdec.decoding.search import Hypothesis, Search, with_full_scores
from keras_encdec.decoding.search_batches import LENGTH_FACTOR, SearchBatch, SearchBatches
from keras_encdec.decoding.unknown_speller import UnknownSpeller
from keras_encdec.models.spelling_rules import SpellingRules
from keras_encdec.models.translation_model import ModelInDtype, TranslationModel
from keras_encdec.models.word_tables import WordTableCache, WordTables
from keras_encdec.runtime.workers import in_order, threads
from keras_encdec.task_options import TRANSLATION_WEIGHT
from keras_encdec.text.lexical_shortlist import SourceTranslations
from keras_encdec.text.vocabulary import FIRST_WORD
from keras_encdec.trained_model import check_can_translate

# Partial spellings of an unknown word that a beam search keeps.
CHARACTER_BEAM = 5


class Generator:
    """Generates target sequences with a model or an ensemble.

    Samplers with the same `step_key` share a compiled step.

    Args:
        models: a model that implements the decoder contract, or a list of such models.
        weights: list of float. See `Ensemble`. Optional.
        average: str. See `Ensemble`. Defaults to "arithmetic".
        dtype: str. Dtype of the computation, such as "float32" or "bfloat16"; log-probabilities are summed in float64.
            Defaults to `None`: each model's own compute dtype.
        spelling_rules: SpellingRules for models that spell unknown words, made from their target vocabulary. Defaults
            to `None`: they may also spell words of the shortlist, and words that are read as other characters.

    Raises:
        ValueError: see `Ensemble`; also if only some of the models spell unknown words, and for an object that is not
            a model.

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
        spelling_rules: SpellingRules | None = None,
    ) -> None:
        models = list(models) if isinstance(models, Sequence) and not isinstance(models, str) else [models]
        self._computed = [ModelInDtype(model, dtype) for model in models]
        ensemble = Ensemble([computed.model for computed in self._computed], weights, average)
        self._functions = SearchFunctions(ensemble)
        self._word_tables = WordTableCache(ensemble.models)
        spells = [decoder.speller is not None for decoder in ensemble.decoders]
        if any(spells) != all(spells):
            raise ValueError("found models that spell unknown words and models that do not, expected only one kind")
        self._speller = UnknownSpeller(ensemble, spelling_rules) if all(spells) else None
        self._batches = SearchBatches(models[0].source_words + FIRST_WORD, models[0].target_words + FIRST_WORD)
        self._arguments = weights, average, dtype, spelling_rules
        # With two threads, one computes while the other waits for Python or for the end of a product;
        # `benchmarks/translation.py` measures the benefit. TensorFlow gains in long jobs, but would compile again at
        # each start: the names of the programs in its cache depend on the order in which they are compiled.
        self._threads = call_threads(with_xla=1 if backend_name() == "tensorflow" else 2)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """Pickles the arguments: the process that reads them compiles its own functions."""
        for computed in self._computed:
            computed.update()
        return type(self), ([computed.model for computed in self._computed], *self._arguments)

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
        translations: Sequence[SourceTranslations] | None = None,
        translation_weight: float = TRANSLATION_WEIGHT,
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
            with_attention: bool. Whether to return the attention with each hypothesis, the weighted average over the
                models that have attention. Defaults to `False`.
            candidates: list of int arrays, the ids that may be used in the targets of each source, in addition to the
                special ids. Probabilities are normalized over a source's own candidates. Defaults to `None`: all ids.
            full_scores: bool. With `candidates`, whether to score the hypotheses again, with all ids, and to rank them
                by these scores. Defaults to `False`.
            spellings: integer array `(words, 51)`, the spellings of the rare words of the sources, whose ids follow
                those of the shortlist, for models that read characters; see `OpenVocabulary`. Defaults to `None`.
            character_beam: int. Number of partial spellings of an unknown word that a beam search keeps, for models
                that spell words. Defaults to `5`.
            translations: list of SourceTranslations, one for each source: the words that compete with spellings in its
                targets, see `UnknownSpeller`. Only for a search with models that spell words. Defaults to `None`: none.
            translation_weight: float. Their weight, from 0 to 1. Defaults to `0.5`.

        Returns:
            list with a list of Hypothesis for each source: the best first, or samples in the order in which they were
            drawn.

        Raises:
            ConfigurationError: a ValueError, if attention is needed and no model has any, and for `translations` with
                models that spell no words or with samples.
            ValueError: for a source that is not a sequence of the models' ids closed by the end of sequence, for an
                unknown sampler, for a limit out of range, and if a model returns NaN.
        """
        sampler = sampler_of(sampler)
        self._check_attention(sampler, with_attention)
        # Spelling may change the order of all hypotheses of a beam, so that all are needed.
        searching = sampler if self._speller is None else sampler.keeping_all()
        if translations is not None:
            check_can_translate(self._speller is not None, sampler.needs_draws)
            with_attention = True
        requests = self._batches.requests(sources, max_length_factor, max_length, first, candidates, spellings)
        for computed in self._computed:
            computed.update()
        results: list[list[Hypothesis]] = [[] for _ in requests.sources]
        tables = self._word_tables.tables(requests.sources)
        search = functools.partial(
            self._search, sampler=searching, with_attention=with_attention, full_scores=full_scores, tables=tables
        )
        with threads(*self._threads) as executor:
            further = self._batches.batches(requests, searching)
            first_two = list(itertools.islice(further, 2))
            batches = itertools.chain(first_two, further)
            searched: Iterator[tuple[SearchBatch, list[list[Hypothesis]]]] = map(search, batches)
            if self._threads.number > 1 and len(first_two) > 1:  # a single batch gets all processors
                searched = in_order(executor, search, batches, ahead=self._threads.number)
            for batch, found in searched:
                for index, hypotheses in zip(batch.indices, found, strict=True):
                    if index is not None:
                        _check_numbers(hypotheses, requests.sources[index])
                        results[index] = hypotheses
        if self._speller is None:
            return results
        return self._speller.spelled(results, requests, sampler, character_beam, translations, translation_weight)

    def _check_attention(self, sampler: Sampler, with_attention: bool) -> None:
        has_attention = self._functions.has_attention
        if with_attention and not has_attention:
            raise ConfigurationError(
                "found {with_attention} with a model that has no attention; train one with attention"
            )
        sampler.check_attention(has_attention)

    def _search(
        self, batch: SearchBatch, sampler: Sampler, with_attention: bool, full_scores: bool, tables: WordTables
    ) -> tuple[SearchBatch, list[list[Hypothesis]]]:
        """Returns a batch, and the hypotheses of each of its rows."""
        found = Search(self._functions, sampler, batch, with_attention, tables).run()
        if full_scores and batch.candidates is not None:
            found = with_full_scores(self._functions, sampler, batch, found, tables)
        return batch, found


def _check_numbers(hypotheses: Sequence[Hypothesis], source: Sequence[int]) -> None:
    if not hypotheses or any(math.isnan(hypothesis.log_prob) for hypothesis in hypotheses):
        raise ValueError(
            f"found log-probabilities that are NaN for the source {source}, expected numbers; check whether the "
            "model's training diverged"
        )
