"""Searches for the weights of the features of n-best lists: MERT, batch MIRA and PRO."""

from typing import NamedTuple

import numpy as np

from keras_encdec.smt.evaluation.corpus_metric import REFERENCE_LENGTH, Array, Indices
from keras_encdec.smt.tuning.nbest_features import NBestFeatures, first_of_each

RESTARTS = 10
# Minimum gain in score after which another sweep over all directions follows.
_MIN_GAIN = 1e-3


def mert(nbest: NBestFeatures, weights: Array, rng: np.random.Generator, restarts: int = RESTARTS) -> Array:
    """Maximizes the metric over the weights by exact line searches.

    From each starting point the search goes along all axes and as many random directions, to the best point on each
    line, and repeats this until such a sweep gains almost nothing. The first starting point is `weights`. Of the
    others, every second one is drawn near the best point so far, and the rest anywhere.

    Args:
        nbest: NBestFeatures.
        weights: float64 array `(values,)`, the initial weights. If all are 0, which ranks nothing, the first starting
            point is drawn at random, too.
        rng: generator of random numbers.
        restarts: int. Number of starting points after the first. Defaults to `10`.

    Returns:
        float64 array `(values,)`: the best weights.

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
            # A quarter as far from the best point as that is from 0, with the features on one scale.
            drawn = best + drawn * np.linalg.norm(best * spread) / np.sqrt(len(weights)) / 4
        ascended, score = _ascend(nbest, drawn, spread, rng)
        if score > best_score:
            best, best_score = ascended, score
    return best


def feature_spread(nbest: NBestFeatures) -> Array:
    """Computes the spread of each feature among the hypotheses of a sentence: float64 array `(values,)`.

    The spread is the root mean square distance from the mean of the sentence. It is 1 for a constant feature.
    """
    sizes = np.diff(nbest.starts, append=len(nbest.features))
    means = np.add.reduceat(nbest.features, nbest.starts, axis=0) / sizes[:, None]
    spread = np.sqrt(np.mean((nbest.features - means[nbest.sentence_of]) ** 2, axis=0))
    # Rounding of the mean leaves a constant feature a spread of about 1e-17, by which no weight may be divided.
    return np.where(nbest.varies & (spread > 0), spread, 1.0)


def _ascend(nbest: NBestFeatures, weights: Array, spread: Array, rng: np.random.Generator) -> tuple[Array, float]:
    """Searches along lines from a starting point; returns the best weights, scaled, and their score."""
    score = nbest.quick_score(weights)
    while True:
        before = score
        # The axes and the same number of random directions, in random order.
        drawn = rng.normal(size=(len(spread), len(spread))) / spread
        for direction in rng.permutation(np.concatenate([np.diag(1 / spread), drawn])):
            step, step_score = best_step(nbest, weights, direction)
            if step_score <= score:
                continue
            moved = weights + step * direction
            moved_score = nbest.quick_score(moved)  # rounding may change the score of the step
            if moved_score > score:
                weights, score = moved, moved_score
        norm = np.abs(weights).sum()
        weights = weights / norm if norm > 0 else weights  # unscaled, the weights could grow to 1e300
        if score - before < _MIN_GAIN:
            return weights, score


ROUNDS = 30
# C in the paper.
MAX_STEP = 0.01
# Factor by which the counts of the preceding sentences decay with every sentence.
_DECAY = 0.999


def mira(
    nbest: NBestFeatures, weights: Array, rng: np.random.Generator, rounds: int = ROUNDS, longest_step: float = MAX_STEP
) -> Array:
    """Moves the weights, sentence by sentence, towards hope hypotheses and away from fear hypotheses.

    A hope hypothesis has a high total and a high score, a fear hypothesis a high total and a low score. A hypothesis is
    scored together with the decaying counts of the preceding sentences; the score is multiplied by the length of all
    their references. The features are scaled to the same spread. The weights are averaged over each round, and the
    average with the best score of the whole list is returned.

    Args:
        nbest: NBestFeatures.
        weights: float64 array `(values,)`, the initial weights.
        rng: generator of random numbers, for the order of the sentences.
        rounds: int. Number of passes over all sentences. Defaults to `30`.
        longest_step: float. C in the paper. Defaults to `0.01`.

    Returns:
        float64 array `(values,)`.

    Reference:
        - Cherry and Foster, 2012, "Batch Tuning Strategies for Statistical Machine Translation"
    """
    spread = feature_spread(nbest)
    features = nbest.features / spread
    sentences = list(zip(*(np.split(rows, nbest.starts[1:]) for rows in (features, nbest.counts)), strict=True))
    current = weights * spread
    norm = np.linalg.norm(current)
    current = current / norm if norm > 0 else current
    before = np.ones(nbest.counts.shape[1])
    best, best_score = weights, -np.inf
    for _ in range(rounds):
        total = np.zeros_like(current)
        for number in rng.permutation(len(sentences)):
            rows, counts = sentences[number]
            together = counts + before
            gains = nbest.metric.scores(together) / 100 * together[:, REFERENCE_LENGTH]
            totals = rows @ current
            hope, fear = int(np.argmax(totals + gains)), int(np.argmax(totals - gains))
            before = _DECAY * (before + counts[hope])
            away = rows[hope] - rows[fear]
            loss = gains[hope] - gains[fear] - away @ current
            size = away @ away
            if loss > 0 and size > 0:
                current = current + min(longest_step, loss / size) * away
            total += current
        averaged = total / len(sentences) / spread
        score = nbest.quick_score(averaged)
        if score > best_score:
            best, best_score = averaged, score
    return best


SAMPLED, KEPT = 5000, 50
MIN_DIFFERENCE = 0.05
# Shares of the learned weights in their sum with the initial weights.
SHARES = [share / 10 for share in range(10, 0, -1)]
# Factor of the squared weights, for features on one scale. It only matters if the pairs are separable.
_PENALTY = 1e-4
_NEWTON_STEPS = 50


def pro(
    nbest: NBestFeatures, weights: Array, rng: np.random.Generator, sampled: int = SAMPLED, kept: int = KEPT
) -> Array:
    """Learns by logistic regression which of two hypotheses of a sentence is better.

    For each sentence, pairs of hypotheses are drawn. Among the pairs whose scores differ by 0.05 or more, the pairs
    with the largest difference are kept. BLEU of a sentence is smoothed, see `sentence_scores`.

    The solution of logistic regression does not depend on the initial weights. As in the paper, the result lies between
    the initial weights and this solution: of ten steps of equal length, the one with the best score of the whole list.

    Args:
        nbest: NBestFeatures.
        weights: float64 array `(values,)`, the initial weights. They are returned if no two hypotheses differ enough.
            If all are 0, the solution is returned.
        rng: generator of random numbers.
        sampled: int. Number of pairs drawn for each sentence. Defaults to `5000`.
        kept: int. Maximum number of pairs kept for each sentence. Defaults to `50`.

    Returns:
        float64 array `(values,)`.

    Reference:
        - Hopkins and May, 2011, "Tuning as Ranking"
        - Nakov et al., 2012, "Optimizing for Sentence-Level BLEU+1 Yields Short Translations"
    """
    spread = feature_spread(nbest)
    scores = nbest.metric.sentence_scores(nbest.counts)
    ends = np.append(nbest.starts[1:], len(scores))
    better, worse = [], []
    for start, end in zip(nbest.starts, ends, strict=True):
        pairs = rng.integers(start, end, size=(2, sampled))
        differences = scores[pairs[0]] - scores[pairs[1]]
        apart = np.flatnonzero(np.abs(differences) >= MIN_DIFFERENCE)
        largest = apart[np.argsort(-np.abs(differences[apart]), kind="stable")[:kept]]
        first_is_better = differences[largest] > 0
        better.append(np.where(first_is_better, *pairs[:, largest]))
        worse.append(np.where(first_is_better, *pairs[::-1, largest]))
    differences = (nbest.features[np.concatenate(better)] - nbest.features[np.concatenate(worse)]) / spread
    if not len(differences):
        return weights
    return _between(nbest, weights, separating_weights(differences) / spread, spread)


def _between(nbest: NBestFeatures, weights: Array, learned: Array, spread: Array) -> Array:
    """Returns the weights with the best score on the line between the initial and the learned weights."""
    norms = [np.linalg.norm(array * spread) for array in (weights, learned)]  # with the features on one scale
    if not all(norms):
        return learned
    begin, end = weights / norms[0], learned / norms[1]
    candidates = [share * end + (1 - share) * begin for share in SHARES]
    return max(candidates, key=nbest.quick_score)  # among equals the first, nearest to the learned weights


def separating_weights(rows: Array) -> Array:
    """Separates rows `(rows, values)` from their negatives: logistic regression by Newton's method, `(values,)`."""
    weights = np.zeros(rows.shape[1])
    for _ in range(_NEWTON_STEPS):
        wrong = 1 / (1 + np.exp(np.clip(rows @ weights, -500, 500)))
        gradient = rows.T @ wrong / len(rows) - _PENALTY * weights
        curvature = (rows.T * (wrong * (1 - wrong))) @ rows / len(rows) + _PENALTY * np.eye(rows.shape[1])
        step = np.linalg.solve(curvature, gradient)
        # Long steps are shortened, as they would overshoot for nearly separable classes.
        weights = weights + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-8:
            break
    return weights


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


def line_scores(nbest: NBestFeatures, weights: Array, direction: Array) -> tuple[Array, Array]:
    """Computes the metric's score for the weights `weights + x direction`, arrays `(values,)`, for all x.

    Returns:
        A tuple of float64 arrays: the steps `(changes,)`, ascending, between which the score is constant; the scores
        `(changes + 1,)`, before the first change, between changes, and after the last.
    """
    envelope = upper_envelopes(nbest.totals(weights), nbest.totals(direction), nbest.starts)
    changes = nbest.counts[envelope.after] - nbest.counts[envelope.before]
    total = nbest.counts[envelope.first].sum(axis=0)
    counts = np.concatenate([total[None], total + np.cumsum(changes, axis=0)])
    return envelope.steps, nbest.metric.scores(counts)


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
