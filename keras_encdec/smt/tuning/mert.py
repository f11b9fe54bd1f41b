"""Minimum error rate training: weights with the best score of the metric itself."""

from typing import NamedTuple

import numpy as np

from keras_encdec.smt.evaluation.corpus_metric import Array
from keras_encdec.smt.tuning.nbest_features import NBestFeatures, first_of_each

# Shares of an interval's ends; a step into one that is narrower may land beside it.
_NARROWEST = 1e-9


class Envelope(NamedTuple):
    """Where along a line of weights the best hypotheses change.

    With weights w + x d, the total of a hypothesis is a line over x. The best hypotheses of a sentence are the upper
    envelope of its lines.

    Attributes:
        first: int array `(sentences,)`. The best hypotheses for x towards minus infinity.
        steps: float64 array `(changes,)`, ascending: x of each change.
        before, after: int arrays `(changes,)`. Which hypothesis is the best of its sentence on either side.
    """

    first: Array
    steps: Array
    before: Array
    after: Array


def upper_envelopes(intercepts: Array, slopes: Array, starts: Array) -> Envelope:
    """Finds the upper envelopes of the lines of all sentences, without a loop over sentences or hypotheses.

    All sentences are followed at once from the left: each goes on to the line that meets its present one first. Lines
    no steeper than that one play no part any longer, so there is less to do at each turn.

    Args:
        intercepts, slopes: float64 arrays `(hypotheses,)`. A total is intercept + x slope.
        starts: int array `(sentences,)`. Where the hypotheses of each sentence begin.

    Returns:
        Envelope.

    Reference:
        - Och, 2003, "Minimum Error Rate Training in Statistical Machine Translation"; Macherey et al., 2008,
          "Lattice-based Minimum Error Rate Training for Statistical Machine Translation", section 3
    """
    sentence_of = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(slopes)))
    flattest = slopes == np.minimum.reduceat(slopes, starts)[sentence_of]
    highest = np.maximum.reduceat(np.where(flattest, intercepts, -np.inf), starts)
    first = first_of_each(flattest & (intercepts == highest[sentence_of]), starts)
    present, reached = first.copy(), np.full(len(starts), -np.inf)
    rows, steps, before, after = np.arange(len(slopes)), [], [], []
    while True:
        steeper = slopes[rows] > slopes[present][sentence_of]
        rows, sentence_of = rows[steeper], sentence_of[steeper]
        if not len(rows):
            break
        now = present[sentence_of]
        meetings = (intercepts[now] - intercepts[rows]) / (slopes[rows] - slopes[now])
        begins = np.flatnonzero(np.diff(sentence_of, prepend=-1))
        going_on = sentence_of[begins]
        number = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(rows)))
        nearest = np.minimum.reduceat(meetings, begins)
        # Of lines that meet the present one in one point any will do: the steeper ones follow at that point.
        following = rows[first_of_each(meetings == nearest[number], begins)]
        # Rounding must not put a change before the one that it follows.
        reached[going_on] = np.maximum(nearest, reached[going_on])
        steps.append(reached[going_on])
        before.append(present[going_on])
        after.append(following)
        present[going_on] = following
    if not steps:
        nothing = np.zeros(0, np.int64)
        return Envelope(first, np.zeros(0), nothing, nothing)
    order = np.argsort(np.concatenate(steps), kind="stable")
    return Envelope(first, *(np.concatenate(parts)[order] for parts in (steps, before, after)))


class LineScores(NamedTuple):
    """The metric's score along a line of weights.

    Attributes:
        steps: float64 array `(changes,)`, ascending. Between two of them the score is constant.
        scores: float64 array `(changes + 1,)`. The score before the first change, between changes, and after the last.
    """

    steps: Array
    scores: Array


def line_scores(nbest: NBestFeatures, weights: Array, direction: Array) -> LineScores:
    """The metric's score for the weights `weights + x direction`, for all x.

    Args:
        nbest: NBestFeatures.
        weights, direction: float64 arrays `(values,)`.

    Returns:
        LineScores.
    """
    envelope = upper_envelopes(nbest.totals(weights), nbest.totals(direction), nbest.starts)
    changes = nbest.counts[envelope.after] - nbest.counts[envelope.before]
    total = nbest.counts[envelope.first].sum(axis=0)
    counts = np.concatenate([total[None], total + np.cumsum(changes, axis=0)])
    return LineScores(envelope.steps, nbest.metric.scores(counts))


def best_step(nbest: NBestFeatures, weights: Array, direction: Array) -> tuple[float, float]:
    """The x for which the weights `weights + x direction` have the best score.

    Args:
        nbest: NBestFeatures.
        weights, direction: float64 arrays `(values,)`.

    Returns:
        A tuple of x, in the middle of the best interval (of equals the widest), and the score there.
    """
    steps, scores = line_scores(nbest, weights, direction)
    if not len(steps):
        return 0.0, float(scores[0])
    margin = max(abs(steps[0]), abs(steps[-1]), 1.0)
    ends = np.concatenate([[steps[0] - margin], steps, [steps[-1] + margin]])
    widths = np.diff(ends)
    usable = np.where(widths > _NARROWEST * margin, scores, -np.inf)
    best = int(np.argmax(np.where(usable == usable.max(), widths, -1.0)))
    return float(ends[best] + ends[best + 1]) / 2, float(scores[best])


RESTARTS = 10
# Of the score; what a sweep over all directions must gain for another one.
_LEAST_GAIN = 1e-3


def mert(nbest: NBestFeatures, weights: Array, rng: np.random.Generator, restarts: int = RESTARTS) -> Array:
    """Maximizes the metric over the weights by exact line searches.

    From each starting point it goes along all axes and as many random directions in turn, to the best point on each
    line, until a round of them gains next to nothing. The first starting point is `weights`. Of the others every
    second one is drawn at random, and the rest lie around the best point so far.

    Args:
        nbest: NBestFeatures.
        weights: float64 array `(values,)`, to begin with. If all are 0, which leaves a list in the order it has, the
            first starting point is drawn, too.
        rng: generator of random numbers.
        restarts: int. Starting points besides the first. Defaults to `10`.

    Returns:
        float64 array `(values,)`: the best weights that were found.

    Reference:
        - Och, 2003, "Minimum Error Rate Training in Statistical Machine Translation"
        - Moore and Quirk, 2008, "Random Restarts in Minimum Error Rate Training for Statistical Machine Translation"
    """
    spread = feature_spread(nbest)
    if not weights.any():
        weights = rng.normal(size=len(weights)) / spread
    best, best_score = _ascend(nbest, weights, spread, rng)
    for restart in range(restarts):
        drawn = rng.normal(size=len(weights)) / spread
        if restart % 2 == 0:
            # A quarter as far from the best point as it is from 0, once the features are on one scale.
            drawn = best + drawn * np.linalg.norm(best * spread) / np.sqrt(len(weights)) / 4
        found, score = _ascend(nbest, drawn, spread, rng)
        if score > best_score:
            best, best_score = found, score
    return best


def feature_spread(nbest: NBestFeatures) -> Array:
    """How far the values of each feature spread among the hypotheses of a sentence: float64 array `(values,)`.

    The root of the mean square of the distance from the sentence's mean, and 1 for a feature that is constant.
    """
    sizes = np.diff(nbest.starts, append=len(nbest.features))
    means = np.add.reduceat(nbest.features, nbest.starts, axis=0) / sizes[:, None]
    spread = np.sqrt(np.mean((nbest.features - means[nbest.sentence_of]) ** 2, axis=0))
    return np.where(spread > 0, spread, 1.0)


def _ascend(nbest, weights, spread, rng):
    score = nbest.quick_score(weights)
    while True:
        before = score
        for direction in _directions(spread, rng):
            step, step_score = best_step(nbest, weights, direction)
            if step_score <= score:
                continue
            moved = weights + step * direction
            moved_score = nbest.quick_score(moved)  # what rounding leaves of the step's score
            if moved_score > score:
                weights, score = moved, moved_score
        norm = np.abs(weights).sum()
        weights = weights / norm if norm > 0 else weights  # or weights of 1e300 come about
        if score - before < _LEAST_GAIN:
            return weights, score


def _directions(spread, rng):
    """The axes and as many random directions, in random order."""
    directions = np.concatenate([np.diag(1 / spread), rng.normal(size=(len(spread), len(spread))) / spread])
    return rng.permutation(directions)
