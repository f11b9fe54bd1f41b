"""The exact search along a line of weights for the best score of a metric."""

from typing import NamedTuple

import numpy as np

from keras_encdec.smt.evaluation.corpus_metric import Array, Indices
from keras_encdec.smt.tuning.nbest_features import NBestFeatures, first_of_each

# Minimum width of a usable interval, relative to its farther end, or to 1 if that is larger. A step into a narrower
# interval may miss it.
_MIN_WIDTH = 1e-9


class Envelope(NamedTuple):
    """The points along a line of weights at which the best hypotheses change.

    With weights w + x d, the total of a hypothesis is a linear function of x. The totals of the best hypotheses of a
    sentence are the upper envelope of these functions.

    Attributes:
        first: int array `(sentences,)`. The best hypotheses as x goes to minus infinity.
        steps: float64 array `(changes,)`, ascending. The x of each change.
        before, after: int arrays `(changes,)`. The best hypothesis of the sentence before and after the change.
    """

    first: Indices
    steps: Array
    before: Indices
    after: Indices


def upper_envelopes(intercepts: Array, slopes: Array, starts: Indices) -> Envelope:
    """Finds the upper envelopes of the lines of all sentences, without a loop over sentences or hypotheses.

    All sentences are followed from the left at the same time. In each turn, a sentence moves to the line that crosses
    its current line first. Lines that are not steeper than the current line are dropped, so each turn has fewer lines.

    Args:
        intercepts, slopes: float64 arrays `(hypotheses,)`. A total is intercept + x slope.
        starts: int array `(sentences,)`. The first hypothesis of each sentence.

    Reference:
        - Och, 2003, "Minimum Error Rate Training in Statistical Machine Translation"; Macherey et al., 2008,
          "Lattice-based Minimum Error Rate Training for Statistical Machine Translation", section 3
    """
    sentence_of = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(slopes)))
    flattest = slopes == np.minimum.reduceat(slopes, starts)[sentence_of]
    highest = np.maximum.reduceat(np.where(flattest, intercepts, -np.inf), starts)
    first = first_of_each(flattest & (intercepts == highest[sentence_of]), starts)
    current, reached = first.copy(), np.full(len(starts), -np.inf)
    rows, steps, before, after = np.arange(len(slopes)), [], [], []
    while True:
        steeper = slopes[rows] > slopes[current][sentence_of]
        rows, sentence_of = rows[steeper], sentence_of[steeper]
        if not len(rows):
            break
        now = current[sentence_of]
        meetings = (intercepts[now] - intercepts[rows]) / (slopes[rows] - slopes[now])
        begins = np.flatnonzero(np.diff(sentence_of, prepend=-1))
        continuing = sentence_of[begins]
        number = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(rows)))
        nearest = np.minimum.reduceat(meetings, begins)
        # If several lines cross the current line at one point, any of them will do, as the steeper lines follow there.
        following = rows[first_of_each(meetings == nearest[number], begins)]
        # Rounding could put a change before its predecessor.
        reached[continuing] = np.maximum(nearest, reached[continuing])
        steps.append(reached[continuing])
        before.append(current[continuing])
        after.append(following)
        current[continuing] = following
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
    """Computes the metric's score for the weights `weights + x direction`, arrays `(values,)`, for all x."""
    envelope = upper_envelopes(nbest.totals(weights), nbest.totals(direction), nbest.starts)
    changes = nbest.counts[envelope.after] - nbest.counts[envelope.before]
    total = nbest.counts[envelope.first].sum(axis=0)
    counts = np.concatenate([total[None], total + np.cumsum(changes, axis=0)])
    return LineScores(envelope.steps, nbest.metric.scores(counts))


def best_step(nbest: NBestFeatures, weights: Array, direction: Array) -> tuple[float, float]:
    """Finds the x for which the weights `weights + x direction` have the best score.

    Returns:
        A tuple of x, in the middle of the best interval (the widest among equals), and the score there.
    """
    steps, scores = line_scores(nbest, weights, direction)
    if not len(steps):
        return 0.0, float(scores[0])
    margin = max(abs(steps[0]), abs(steps[-1]), 1.0)
    ends = np.concatenate([[steps[0] - margin], steps, [steps[-1] + margin]])
    widths = np.diff(ends)
    farther = np.maximum(np.abs(ends[:-1]), np.abs(ends[1:]))
    usable = np.where(widths > _MIN_WIDTH * np.maximum(farther, 1.0), scores, -np.inf)
    best = int(np.argmax(np.where(usable == usable.max(), widths, -1.0)))
    return float(ends[best] + ends[best + 1]) / 2, float(scores[best])
