"""The phrases that a hypothesis of an n-best list consists of, recovered from its features."""

import math
from collections.abc import Mapping, Sequence
from operator import add
from typing import NamedTuple

from keras_encdec.formats.record_reader import MalformedLine
from keras_encdec.smt.nbest.phrase_scores import PhraseOption

# Rounding of sums of the same numbers in another order; far below that of what a list shows.
_DECIMALS = 9
# States after which a search is given up, some ten seconds and some hundred MB. It takes tens of states for most
# hypotheses of captions of 12 words, and some thousands for sentences of 50.
MOST_STATES = 1_000_000


class SearchGivenUp(MalformedLine):
    """No segmentation was found among the first beginnings of segmentations; there may be one."""

    def __init__(self, words: int, states: int) -> None:
        super().__init__(
            f"found no segmentation of the {words} words within {states:,} partial segmentations",
            "expected a shorter hypothesis, or its segmentation in the list",
        )


class DerivationFeatures(NamedTuple):
    """What an n-best list tells of the phrases of a hypothesis.

    Attributes:
        scores: list of float. The sum of each log-score of the table, as the list shows it.
        phrases: float. How many phrases; `None` where the list does not tell.
        distortion: float. Minus the sum of the jumps between the source phrases; `None` where the list does not tell.
    """

    scores: Sequence[float]
    phrases: float | None = None
    distortion: float | None = None


def find_segmentation(
    options: Mapping[str, Sequence[PhraseOption]],
    source_words: int,
    target: Sequence[str],
    longest: int,
    features: DerivationFeatures,
) -> list[PhraseOption] | None:
    """Finds phrases that make up a hypothesis and whose sums are the features of the hypothesis.

    A search from left to right over the words of the hypothesis. It is bounded by what remains of each sum, which must
    lie between the lowest and the highest that the remaining words can add up to, and by the jumps that are left.

    Args:
        options: dict from target phrase to list of PhraseOption, of the sentence.
        source_words: int. How many words the sentence has.
        target: list of str. The words of the hypothesis.
        longest: int. Words of the longest target phrase.
        features: DerivationFeatures.

    Returns:
        list of PhraseOption in the order of the hypothesis; `None` when no phrases fit. Of several segmentations that
        fit, the first: that whose first phrase has the fewest target words, then that whose first phrase comes first in
        `options`, then by the next phrase in the same way.

    Raises:
        SearchGivenUp: when none are found among the first million beginnings of segmentations.
    """
    remaining = (source_words, features.phrases or 0, *features.scores)
    tolerances = (0.5, 0.5 if features.phrases is not None else math.inf, *map(_tolerance, features.scores))
    candidates, bounds = _candidates(options, target, longest, tolerances)
    if bounds[0] is None:
        return None
    states = [(0, 0, 0, features.distortion, remaining, None)]
    seen = set()
    while states:
        if len(seen) == MOST_STATES:
            raise SearchGivenUp(len(target), MOST_STATES)
        position, covered, previous, jumps, remaining, chosen = states.pop()
        if position == len(target) and _is_done(jumps, remaining, tolerances):
            return _phrases(chosen)
        state = position, covered, previous, jumps, tuple([round(value, _DECIMALS) for value in remaining])
        if state in seen:
            continue
        seen.add(state)
        found = []
        for after, option in candidates[position]:
            coverage, start, end, values = option
            if covered & coverage:
                continue
            left = None if jumps is None else jumps + abs(start - previous)
            if left is not None and left > 0.5:
                continue
            rest = []
            for value, part, (low, high) in zip(remaining, values, bounds[after]):  # noqa: B905
                value -= part
                if not low <= value <= high:
                    break
                rest.append(value)
            else:
                now = covered | coverage
                if left is None or left + _least_jumps(source_words, now, end) < 0.5:
                    found.append((after, now, end, left, tuple(rest), (option, chosen)))
        states.extend(reversed(found))
    return None


def _candidates(options, target, longest, tolerances):
    """What may follow at each position in the target, and between what the sums of the rest lie.

    Returns:
        list of lists of `(position after it, PhraseOption)`, and list of lists of `(lowest, highest)`, for each sum;
        `None` from where the rest of the target cannot be translated.
    """
    size = len(target)
    candidates, sums = [[] for _ in range(size + 1)], [None] * size + [([0.0] * len(tolerances),) * 2]
    for position in reversed(range(size)):
        for after in range(position + 1, min(size, position + longest) + 1):
            if sums[after] is not None:
                phrase = " ".join(target[position:after])
                candidates[position] += [(after, option) for option in options.get(phrase, ())]
        if candidates[position]:
            reached = [(option.values, *sums[after]) for after, option in candidates[position]]
            lows, highs = ([map(add, one[0], one[side]) for one in reached] for side in (1, 2))
            sums[position] = list(map(min, zip(*lows, strict=True))), list(map(max, zip(*highs, strict=True)))
    # Phrases without target words may stand anywhere, each at most once.
    empty = options.get("", ())
    for position, found in enumerate(candidates):
        found[:0] = [(position, option) for option in empty]
    less = [sum(min(0, option.values[i]) for option in empty) - most for i, most in enumerate(tolerances)]
    more = [sum(max(0, option.values[i]) for option in empty) + most for i, most in enumerate(tolerances)]
    bounds = [found and list(zip(map(add, found[0], less), map(add, found[1], more), strict=True)) for found in sums]
    return candidates, bounds


def _least_jumps(source_words, covered, previous):
    """The least sum of jumps to come: to the first word left, then over the covered ones before the last word left."""
    left = ~covered & ((1 << source_words) - 1)
    if not left:
        return 0
    first, last = (left & -left).bit_length() - 1, left.bit_length() - 1
    crossed = (covered & ((1 << last) - 1)) >> max(first, previous)
    return abs(first - previous) + crossed.bit_count()


def _is_done(jumps, remaining, tolerances):
    if jumps is not None and jumps < -0.5:
        return False
    return all(abs(value) <= most for value, most in zip(remaining, tolerances, strict=True))


def _phrases(chosen):
    phrases = []
    while chosen:
        option, chosen = chosen
        phrases.append(option)
    return phrases[::-1]


def _tolerance(value):
    """By how much a sum may differ from what a list shows of it: six digits of a number of single precision."""
    digit = 10.0 ** (math.floor(math.log10(abs(value))) - 5) if value else 1e-6
    return digit / 2 + 2e-6 * max(1.0, abs(value))
