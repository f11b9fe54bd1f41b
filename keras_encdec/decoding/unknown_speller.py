"""Spelling of the unknown words of generated targets, character by character."""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import LayerFunction, compiled_call, power_of_two
from keras_encdec.backend.types import Tensor
from keras_encdec.data import pad
from keras_encdec.data.rare_word_batches import local_sources
from keras_encdec.decoding.beam_sampler import BeamSampler
from keras_encdec.decoding.ensemble import Ensemble, EnsembleMemory, EnsembleState, SearchFunctions
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search import Hypothesis, Search, with_full_scores
from keras_encdec.decoding.search_batches import SearchBatch, SearchRequests
from keras_encdec.models.contract import Decoder
from keras_encdec.models.spelling_rules import SpellingRules
from keras_encdec.models.word_tables import NO_TABLES, WordTables
from keras_encdec.task_options import TRANSLATION_WEIGHT
from keras_encdec.text.lexical_shortlist import SourceTranslations
from keras_encdec.text.vocabulary import END, FIRST_WORD, MAX_WORD_LENGTH, UNKNOWN

# Maximum number of hypotheses, and of words, that are spelled together.
MAX_HYPOTHESES, MAX_WORDS = 64, 256
# Maximum number of attention weights that are computed together, which takes about 1.5 GB. Long hypotheses of long
# sources are computed alone.
MAX_WEIGHTS = 1 << 26
# Widths are multiples of the first number and rows powers of two from the second, so that few shapes are compiled.
WIDTH_STEP, MIN_ROWS = 8, 8
# Maximum number of translations that compete with the spelling of a word.
TRANSLATIONS = 8
# Lowest ln p of a word that competes with translations. If their weight is 1, other words have probability 0.
LOWEST_LOG_PROB = -100.0


class UnknownSpeller:
    """Spells each unknown word of hypotheses with the `Speller` of the models that generated them.

    The states that the spellings start from are computed again, from the whole hypothesis. Then a search over
    characters finds the spelling of each unknown word. ln p of the characters is added to ln p of the hypothesis, which
    changes its score as the sampler's `score_gain` says. A word has 1 to 49 characters, and is read as it was spelled,
    see `SpellingRules`.

    Translations of the source words may compete with the spelling that the search found. The word w at target position
    j is then the one with the largest

        (1 - l) p(characters of w) + l sum over s of a_js t(w | x_s)

    where l is the weight of the translations, t a table of word translations, and a_js the attention to the source word
    x_s, normalized over the source words. The score of the hypothesis includes ln of this value; its ln p remains
    that of the characters, as `TextScorer` computes it.

    Args:
        ensemble: Ensemble of models whose decoders have a `speller`.
        rules: SpellingRules. Defaults to `None`: those without characters and shortlist.
    """

    def __init__(self, ensemble: Ensemble, rules: SpellingRules | None = None) -> None:
        self._models = ensemble.models
        self._first_states = compiled_call(LayerFunction(functools.partial(_first_states, ensemble), ensemble))
        self._functions = SearchFunctions(_CharacterEnsemble(ensemble, rules or SpellingRules()))

    def spelled(
        self,
        results: Sequence[Sequence[Hypothesis]],
        requests: SearchRequests,
        sampler: Sampler,
        character_beam: int,
        translations: Sequence[SourceTranslations] | None = None,
        translation_weight: float = TRANSLATION_WEIGHT,
    ) -> list[list[Hypothesis]]:
        """Spells the unknown words of hypotheses, and returns the best.

        Spelling lowers the score of a hypothesis. So the requested number of hypotheses of each source is spelled
        first, and then only those others whose words alone have a higher score than the worst of these.

        Args:
            results: for each source its hypotheses, the best first, or samples.
            requests: SearchRequests, the sources of these results.
            sampler: Sampler whose results are requested.
            character_beam: int. Number of partial spellings of a word that are kept, unless characters are drawn.
            translations: list of SourceTranslations, one for each source, whose hypotheses must have attention.
                Defaults to `None`: every unknown word is spelled.
            translation_weight: float. Their weight l, from 0 to 1. Defaults to `0.5`.

        Returns:
            for each source its hypotheses with `spellings`, the best first, at most as many as the sampler's results;
            samples keep their order.
        """
        character_sampler = sampler.character_sampler() or BeamSampler(character_beam)
        table = None if translations is None else _Translations(translations, translation_weight)
        number = sampler.results_per_source
        best_words = [hypotheses[:number] for hypotheses in results]
        spelled = self._all_spelled(best_words, requests, sampler, character_sampler, table)
        if sampler.needs_draws:
            return spelled
        worst = [min(each.score for each in best) for best in spelled]
        others = [
            [hypothesis for hypothesis in hypotheses[number:] if hypothesis.score > lowest]
            for hypotheses, lowest in zip(results, worst, strict=True)
        ]
        spelled_others = self._all_spelled(others, requests, sampler, character_sampler, table)
        return [
            sorted([*best, *more], key=lambda hypothesis: -hypothesis.score)[:number]
            for best, more in zip(spelled, spelled_others, strict=True)
        ]

    def _all_spelled(
        self,
        results: Sequence[Sequence[Hypothesis]],
        requests: SearchRequests,
        sampler: Sampler,
        character_sampler: Sampler,
        table: "_Translations | None",
    ) -> list[list[Hypothesis]]:
        """Spells the unknown words of all hypotheses, and keeps their order; see `spelled`."""
        unknown: list[tuple[int, int, int]] = []
        # Hypotheses of a beam share most of their words. Unknown words after the same words have the same spelling,
        # unless it is drawn.
        prefixes: dict[tuple[object, int], int] = {}
        first: dict[int, tuple[int, int, int]] = {}
        for index, hypotheses in enumerate(results):
            for rank, hypothesis in enumerate(hypotheses):
                prefix: object = (index, rank if sampler.needs_draws else 0)
                for column, number in enumerate(hypothesis.ids):
                    prefix = prefixes.setdefault((prefix, number), len(prefixes))
                    if number == UNKNOWN:
                        unknown.append((index, rank, prefix))
                        first.setdefault(prefix, (index, rank, column))
        spelled = [list(hypotheses) for hypotheses in results]
        if not unknown:
            return spelled
        found = self._spellings(list(first.values()), results, requests, character_sampler, table)
        words = dict(zip(first, found, strict=True))
        for index, rank, prefix in unknown:
            word, before = words[prefix], spelled[index][rank]
            ranked_by = word.log_prob if table is None else word.score
            spelled[index][rank] = before._replace(
                log_prob=before.log_prob + word.log_prob,
                score=before.score + sampler.score_gain(ranked_by, len(before.ids)),
                spellings=(*before.spellings, word.ids),
                spelling_log_prob=before.spelling_log_prob + word.log_prob,
            )
        return spelled

    def _spellings(
        self,
        unknown: Sequence[tuple[int, int, int]],
        results: Sequence[Sequence[Hypothesis]],
        requests: SearchRequests,
        sampler: Sampler,
        table: "_Translations | None",
    ) -> list[Hypothesis]:
        """Returns the spelling of each unknown word, given by its source, hypothesis and position."""
        states = np.concatenate(list(self._states(unknown, results, requests)))
        words: list[Hypothesis] = []
        for start in range(0, len(unknown), MAX_WORDS):
            part = states[start : start + MAX_WORDS]
            rows = power_of_two(len(part), MIN_ROWS)
            first = np.zeros((rows, part.shape[1]), np.float32)
            first[: len(part)] = part
            # Random numbers depend on the source, the sample and the position.
            places = unknown[start : start + MAX_WORDS]
            draws = [((requests.input_indices[i] + 1) << 40) + (rank << 20) + column for i, rank, column in places]
            limits = np.array([MAX_WORD_LENGTH] * len(part) + [2] * (rows - len(part)))
            batch = SearchBatch(range(rows), first, limits, draws + [0] * (rows - len(part)))
            found = Search(self._functions, sampler, batch).run()
            spelled = [hypotheses[0] for hypotheses in found[: len(part)]]
            if table is not None:
                known = [table.translations(i, results[i][rank].attention, column) for i, rank, column in places]
                known += [{}] * (rows - len(part))
                hypotheses = [[Hypothesis(ids, 0.0, 0.0) for ids in each] for each in known]
                scored = with_full_scores(self._functions, sampler, batch, hypotheses, rows=TRANSLATIONS)
                spelled = [table.best(*each) for each in zip(spelled, known, scored, strict=False)]
            words.extend(spelled)
        return words

    def _states(
        self, unknown: Sequence[tuple[int, int, int]], results: Sequence[Sequence[Hypothesis]], requests: SearchRequests
    ) -> Iterator[np.ndarray]:
        """Yields the first states of the spellings, float32 `(words, units of all models)`, in order."""

        def weights(part: Sequence[tuple[int, int]]) -> int:
            """Returns the number of attention weights of each hypothesis."""
            longest = max(len(requests.sources[index]) for index, _ in part)
            return longest * max(len(results[index][rank].ids) for index, rank in part)

        columns: dict[tuple[int, int], list[int]] = {}
        for index, rank, column in unknown:
            columns.setdefault((index, rank), []).append(column)
        rows = list(columns)
        while rows:
            part = rows[:MAX_HYPOTHESES]
            while len(part) > 1 and len(part) * weights(part) > MAX_WEIGHTS:
                part = part[: len(part) // 2]
            rows = rows[len(part) :]
            min_rows = MIN_ROWS if MIN_ROWS * weights(part) <= MAX_WEIGHTS else 1
            targets = [results[index][rank].ids for index, rank in part]
            filler = [[END]] * (power_of_two(len(part), min_rows) - len(part))
            source, target = (
                pad([*sequences, *filler], WIDTH_STEP * -(-max(map(len, sequences)) // WIDTH_STEP))
                for sequences in ([requests.sources[index] for index, _ in part], targets)
            )
            characters: list[np.ndarray] = []
            if requests.spellings is not None:
                first_rare = self._models[0].source_words + FIRST_WORD
                source, characters = local_sources(source, first_rare, requests.spellings)
            width = target.shape[1]
            positions = [number * width + column for number, row in enumerate(part) for column in columns[row]]
            padded = np.zeros(power_of_two(len(positions), MIN_ROWS), np.int32)
            padded[: len(positions)] = positions
            states = self._first_states(source, characters, target, padded)
            yield ops.convert_to_numpy(states)[: len(positions)]


class _Translations:
    """Chooses between the spelling of an unknown word and translations of the source words that it attends to."""

    def __init__(self, tables: Sequence[SourceTranslations], weight: float) -> None:
        self._tables, self._weight = tables, weight

    def translations(self, source: int, attention: np.ndarray | None, column: int) -> dict[tuple[int, ...], float]:
        """Returns the most probable translations for the target token `column`, from its row of `attention`.

        The result has the probability of each translation by the ids of its characters, closed by the end mark.

        Args:
            source: int. Index of the source.
            attention: float array `(tokens, source tokens)`.
            column: int. Index of the token.
        """
        assert attention is not None
        spellings, probabilities = self._tables[source]
        word_weights = attention[column, : probabilities.shape[1]]
        word_weights = word_weights / max(word_weights.sum(), np.finfo(np.float32).tiny)
        # Here, unlike in a matrix product, equal rows have equal sums, so that ties are those of the served model.
        totals = (probabilities * word_weights).sum(axis=1)
        best = np.argsort(-totals, kind="stable")[:TRANSLATIONS]
        return {
            (*spellings[number][spellings[number] > END].tolist(), END): float(totals[number])
            for number in best
            if totals[number] > 0
        }

    def best(
        self, spelled: Hypothesis, translations: Mapping[tuple[int, ...], float], scored: Sequence[Hypothesis]
    ) -> Hypothesis:
        """Returns the most probable word. Its score is ln of its probability, at least `LOWEST_LOG_PROB`.

        The translations come from `translations`; `scored` are those with ln p of their characters.
        """
        # A translation may be a word that cannot be spelled, because a mark would join the character before it.
        words = [spelled, *(each for each in scored if each.log_prob > -math.inf)]
        log_probs = [self._log_prob(word, translations.get(word.ids, 0.0)) for word in words]
        best = int(np.argmax(log_probs))
        return words[best]._replace(score=max(log_probs[best], LOWEST_LOG_PROB))

    def _log_prob(self, word: Hypothesis, translated: float) -> float:
        """Computes ln((1 - l) p(characters) + l t), where t is the probability of the translation."""
        with np.errstate(divide="ignore"):
            spelling = np.log(1 - self._weight) + word.log_prob
            return float(np.logaddexp(spelling, np.log(self._weight * translated)))


def _first_states(
    ensemble: Ensemble, source: Tensor, characters: list[Tensor], target: Tensor, positions: Tensor
) -> Tensor:
    states = []
    for model in ensemble.models:
        encoded = model.encode(source, characters if model.encoder.reader is not None else [])
        _, first = model.decoder(Decoder.previous_words(target), encoded, spelled_positions=positions)
        states.append(ops.cast(first, "float32"))
    return ops.concatenate(states, axis=1)


class _CharacterEnsemble(Ensemble):
    """The spellers of an ensemble's models, whose probabilities of the next character are averaged.

    `start` takes the first states of all models, `(words, units of all models)`, in place of sources.
    """

    def __init__(self, ensemble: Ensemble, rules: SpellingRules) -> None:
        super().__init__(ensemble.models, ensemble.model_weights, ensemble.average)
        self._rules = rules

    @property
    def decoders(self) -> list[Decoder]:
        spellers = [model.decoder.speller for model in self.models]
        return [speller.decoder for speller in spellers if speller is not None]

    def start(
        self, source: Tensor, characters: Sequence[Tensor] = (), tables: WordTables = NO_TABLES
    ) -> tuple[EnsembleState, EnsembleMemory]:
        state: EnsembleState = dict(self._rules.first_state(ops.shape(source)[0]))
        memory, begin = {}, 0
        for number, decoder in enumerate(self.decoders):
            first = ops.cast(source[:, begin : begin + decoder.units], decoder.compute_dtype)
            state[str(number)], memory[str(number)] = decoder.start({"spelling": first})
            begin += decoder.units
        return state, memory

    def next_log_probs(
        self, previous: Tensor, state: EnsembleState, memory: EnsembleMemory, *arguments: object, **options: object
    ) -> tuple[Tensor, EnsembleState]:
        spelled = self._rules.next_state(previous, state)
        log_probs, state = super().next_log_probs(previous, state, memory)
        return self._rules.apply(log_probs, previous, spelled), {**state, **spelled}
