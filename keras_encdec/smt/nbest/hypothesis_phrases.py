"""Finds the phrases that a hypothesis of an n-best list consists of: in its segmentation, or from its features."""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import add
from typing import NamedTuple

import numpy as np

from keras_encdec.errors import quoted
from keras_encdec.formats import PhraseSpan, parse_features, parse_segmentation
from keras_encdec.formats.feature_weights import DISTORTION, PHRASE_PENALTY
from keras_encdec.formats.record_reader import MalformedLine
from keras_encdec.runtime.progress import counted
from keras_encdec.smt.nbest.phrase_scores import PhraseScores, PositionedPhrase

# If several lines of the table fit a phrase pair, at most this number of combinations of such lines is kept. Nearly
# all hypotheses have fewer.
_MAX_CHOICES = 10_000


class HypothesisPhrases:
    """Finds the phrases of each hypothesis of a sentence. In its list, `moses_feature` is the feature of the table.

    Attributes:
        recovered: int. Number of hypotheses so far whose phrases were recovered from their features.
    """

    def __init__(
        self, scores: PhraseScores, source: Sequence[str], hypotheses: Sequence[Sequence[str]], moses_feature: str
    ) -> None:
        self._scores, self._source, self._hypotheses, self._moses_feature = scores, source, hypotheses, moses_feature
        self.recovered = 0

    def phrases(self, line: bytes, words: Sequence[str]) -> list[PositionedPhrase]:
        """Finds the phrases of a hypothesis, in its order, from its line in the list and its words.

        Raises:
            MalformedLine: a ValueError with `found` and `expected`, if the phrases are not found.
        """
        spans = parse_segmentation(line, len(self._source), len(words))
        if spans is not None:
            return self._fitting([self._lines_of_span(span, words) for span in spans], line)
        phrases = find_segmentation(
            self._options, len(self._source), words, self._scores.longest, self._features(line.split(b"|||")[2])
        )
        if phrases is None:
            raise MalformedLine(
                "found no phrases in the table that form the hypothesis and whose scores add up to "
                f"{self._moses_feature}",
                "expected the sentences and the table that the list was made with",
            )
        self.recovered += 1
        return phrases

    @cached_property
    def _options(self) -> Mapping[str, Sequence[PositionedPhrase]]:
        """The phrase options of the sentence, by target phrase."""
        longest = self._scores.longest
        targets = {
            " ".join(words[start:end])
            for words in self._hypotheses
            for start in range(len(words))
            for end in range(start + 1, min(len(words), start + longest) + 1)
        }
        return self._scores.options(self._source, targets | {""})

    def _lines_of_span(self, span: PhraseSpan, words: Sequence[str]) -> list[PositionedPhrase]:
        """Returns the lines of the table with the pair of a span."""
        target = " ".join(words[span.target_start : span.target_end])
        options = self._scores.options_at(self._source, span.source_start, span.source_end, target)
        if not options:
            source = " ".join(self._source[span.source_start : span.source_end])
            raise MalformedLine(
                f"found the phrases {quoted(source)} and {quoted(target)} in the segmentation",
                "expected a pair of the table",
            )
        return options

    def _fitting(self, options: Sequence[list[PositionedPhrase]], line: bytes) -> list[PositionedPhrase]:
        """Chooses one of the lines of each pair: without factors, several lines may have the same pair.

        The scores of the chosen lines add up to the feature of the table in the list. If the list lacks it, or no
        choice fits, the first line of each pair is chosen.
        """
        first = [same_pair[0] for same_pair in options]
        ambiguous = [index for index, same_pair in enumerate(options) if len(same_pair) > 1]
        sums = parse_features(line.split(b"|||")[2]).get(self._moses_feature, []) if ambiguous else []
        if not 0 < len(sums) <= self._scores.num_scores:
            return first
        fixed = [option.log_scores for index, option in enumerate(first) if index not in ambiguous]
        so_far = tuple(sum(scores[i] for scores in fixed) for i in range(len(sums)))
        chosen = _choice([options[index] for index in ambiguous], so_far, sums)
        if chosen is not None:
            for index, option in zip(ambiguous, chosen, strict=True):
                first[index] = option
        return first

    def _features(self, field: bytes) -> "DerivationFeatures":
        features = parse_features(field)
        scores = features.get(self._moses_feature)
        if scores is None:
            raise MalformedLine(
                f"found neither a segmentation nor the feature {self._moses_feature}",
                "expected one of them (--moses_feature names the feature of the table)",
            )
        if len(scores) > self._scores.num_scores:
            raise MalformedLine(
                f"found {counted(len(scores), 'values')} of {self._moses_feature}",
                f"expected at most {self._scores.num_scores}, the number of scores in the table",
            )
        (phrases,), (distortion,) = (features.get(name, [None])[:1] for name in (PHRASE_PENALTY, DISTORTION))
        return DerivationFeatures(scores, phrases, distortion)


def _choice(
    options: Sequence[Sequence[PositionedPhrase]], first: tuple[float, ...], sums: Sequence[float]
) -> tuple[PositionedPhrase, ...] | None:
    """Chooses an option for each pair, so that `first` and the log-scores of the options add up to `sums`."""
    # For each sum of the scores so far, rounded: the sum, and the options that were chosen for it.
    reached: dict[tuple[float, ...], tuple[tuple[float, ...], tuple[PositionedPhrase, ...]]] = {(): (first, ())}
    for same_pair in options:
        extended: dict[tuple[float, ...], tuple[tuple[float, ...], tuple[PositionedPhrase, ...]]] = {}
        for so_far, chosen in reached.values():
            for option in same_pair:
                total = tuple(map(add, so_far, option.log_scores))
                extended.setdefault(tuple(round(value, DECIMALS) for value in total), (total, (*chosen, option)))
        reached = dict(itertools.islice(extended.items(), _MAX_CHOICES))
    for total, chosen in reached.values():
        if all(abs(a - b) <= tolerance(b) for a, b in zip(total, sums, strict=True)):
            return chosen
    return None


# Sums of the same numbers in different orders agree to this number of decimals. Lists have fewer decimals.
DECIMALS = 9
# A search is given up after this number of states, which take about ten seconds and a few hundred MB. Most hypotheses
# of captions of 12 words need tens of states; those of sentences of 50 words need a few thousand.
MAX_STATES = 1_000_000

# Phrases as a linked list: the last phrase, and those before it.
_Chosen = tuple[PositionedPhrase, "_Chosen | None"]
# A segmentation of the first words of the hypothesis: the number of these words, a bit for each source word that the
# phrases translate, the source word after the last phrase, minus the sum of the jumps to come (`None` if the list lacks
# it), the sums of the values of the phrases to come, and the phrases.
_State = tuple[int, int, int, float | None, tuple[float, ...], _Chosen | None]
# The phrases that may follow at a position of the hypothesis, each with the position after it.
_Candidates = list[tuple[int, PositionedPhrase]]
# The lowest and the highest value of each sum.
_Bounds = list[tuple[float, float]]


class SearchGivenUp(MalformedLine):
    """Error raised when a search is given up before it finds a segmentation. One may exist."""


class DerivationFeatures(NamedTuple):
    """The features of a hypothesis in an n-best list that restrict its phrases.

    Attributes:
        scores: list of float. The sum of each log-score of the table, rounded as in the list.
        phrases: float. Number of phrases; `None` if the list lacks it.
        distortion: float. Minus the sum of the jumps between the source phrases; `None` if the list lacks it.
    """

    scores: Sequence[float]
    phrases: float | None
    distortion: float | None


def find_segmentation(
    options: Mapping[str, Sequence[PositionedPhrase]],
    source_words: int,
    target: Sequence[str],
    longest: int,
    features: DerivationFeatures,
) -> list[PositionedPhrase] | None:
    """Finds phrases that form a hypothesis and whose scores add up to its features.

    The search goes from left to right over the words of the hypothesis. Two bounds prune it. The remainder of each sum
    must lie between the lowest and the highest sum of the remaining words. The remaining distortion must suffice for
    the jumps to come.

    Args:
        options: dict from target phrase to list of PositionedPhrase: the options of the sentence.
        source_words: int. Number of words in the sentence.
        target: list of str. The words of the hypothesis.
        longest: int. Number of words in the longest target phrase.
        features: DerivationFeatures.

    Returns:
        list of PositionedPhrase in the order of the hypothesis; `None` if no phrases fit. If several segmentations fit,
        the result is the one whose first phrase has the fewest target words; among these, the one whose first phrase
        comes first in `options`; then the next phrases decide in the same way.

    Raises:
        SearchGivenUp: if it finds no segmentation within a million partial segmentations.
    """
    sums = (source_words, features.phrases or 0, *features.scores)
    tolerances = (0.5, 0.5 if features.phrases is not None else math.inf, *map(tolerance, features.scores))
    candidates, empty = _candidates(options, target, longest), options.get("", ())
    if target and not candidates[0]:
        return None
    bounds = _bounds(candidates, empty, tolerances)
    # Phrases without target words may stand anywhere, each at most once.
    candidates = [[*((position, option) for option in empty), *here] for position, here in enumerate(candidates)]
    states: list[_State] = [(0, 0, 0, features.distortion, sums, None)]
    seen: set[tuple[int, int, int, float | None, tuple[float, ...]]] = set()
    while states:
        if len(seen) == MAX_STATES:
            raise SearchGivenUp(
                f"found no segmentation of the {len(target)} words within {MAX_STATES:,} partial segmentations",
                "expected a shorter hypothesis, or its segmentation in the list",
            )
        state = states.pop()
        position, covered, end, distortion, sums, chosen = state
        if position == len(target) and _is_done(distortion, sums, tolerances):
            return _phrases(chosen)
        key = position, covered, end, distortion, tuple([round(value, DECIMALS) for value in sums])
        if key not in seen:
            seen.add(key)
            states.extend(reversed(_continuations(state, candidates[position], bounds, source_words)))
    return None


def _candidates(
    options: Mapping[str, Sequence[PositionedPhrase]], target: Sequence[str], longest: int
) -> list[_Candidates]:
    """Finds the phrases that may follow at each position of the target, if the words after them can be translated."""
    size = len(target)
    candidates: list[_Candidates] = [[] for _ in range(size + 1)]
    for position in reversed(range(size)):
        for after in range(position + 1, min(size, position + longest) + 1):
            if after == size or candidates[after]:
                phrase = " ".join(target[position:after])
                candidates[position] += [(after, option) for option in options.get(phrase, ())]
    return candidates


def _bounds(
    candidates: Sequence[_Candidates], empty: Sequence[PositionedPhrase], tolerances: Sequence[float]
) -> list[_Bounds]:
    """Finds the bounds of the sums of the phrases to come at each position.

    Any of the phrases without target words, `empty`, may be among the phrases to come.
    """
    number = len(tolerances)
    lowest, highest = np.zeros((2, len(candidates), number))
    for position in reversed(range(len(candidates))):
        if candidates[position]:
            afters = [after for after, _ in candidates[position]]
            values = np.array([option.values[:number] for _, option in candidates[position]])
            lowest[position] = (values + lowest[afters]).min(axis=0)
            highest[position] = (values + highest[afters]).max(axis=0)
    empty_values = np.array([option.values[:number] for option in empty]).reshape(-1, number)
    lowest += np.minimum(empty_values, 0).sum(axis=0) - tolerances
    highest += np.maximum(empty_values, 0).sum(axis=0) + tolerances
    return [list(zip(*sums, strict=True)) for sums in zip(lowest.tolist(), highest.tolist(), strict=True)]


def _continuations(
    state: _State, candidates: _Candidates, bounds: Sequence[_Bounds], source_words: int
) -> list[_State]:
    """Continues a partial segmentation with each candidate after which the bounds can still be met."""
    _, covered, previous, distortion, sums, chosen = state
    continuations: list[_State] = []
    for after, option in candidates:
        coverage, start, end, values = option
        if covered & coverage:
            continue
        left = None if distortion is None else distortion + abs(start - previous)
        if left is not None and left > 0.5:  # for speed: computing the jumps to come takes longer
            continue
        rest = _sums_within(sums, values, bounds[after])
        if rest is None:
            continue
        if left is None or left + _min_jumps(source_words, covered | coverage, end) < 0.5:
            continuations.append((after, covered | coverage, end, left, rest, (option, chosen)))
    return continuations


def _sums_within(sums: Sequence[float], values: Sequence[float], bounds: _Bounds) -> tuple[float, ...] | None:
    """Subtracts a phrase's values from the sums; returns `None` if a difference is out of its bounds."""
    rest = []
    for value, part, (low, high) in zip(sums, values, bounds):  # noqa: B905
        value -= part
        if not low <= value <= high:
            return None
        rest.append(value)
    return tuple(rest)


def _min_jumps(source_words: int, covered: int, previous: int) -> int:
    """Returns the minimum sum of the jumps to come: to the first uncovered word, and over covered words to the last."""
    left = ~covered & ((1 << source_words) - 1)
    if not left:
        return 0
    first, last = (left & -left).bit_length() - 1, left.bit_length() - 1
    crossed = (covered & ((1 << last) - 1)) >> max(first, previous)
    return abs(first - previous) + crossed.bit_count()


def _is_done(distortion: float | None, sums: Sequence[float], tolerances: Sequence[float]) -> bool:
    if distortion is not None and distortion < -0.5:
        return False
    return all(abs(value) <= limit for value, limit in zip(sums, tolerances, strict=True))


def _phrases(chosen: _Chosen | None) -> list[PositionedPhrase]:
    phrases: list[PositionedPhrase] = []
    while chosen:
        option, chosen = chosen
        phrases.append(option)
    return phrases[::-1]


def tolerance(value: float) -> float:
    """Returns how far a sum may be from its value in a list: in single precision, and with six digits."""
    digit = 10.0 ** (math.floor(math.log10(abs(value))) - 5) if value else 1e-6
    return digit / 2 + 2e-6 * max(1.0, abs(value))
