"""Searches for the weights of the features of n-best lists: MERT, batch MIRA and PRO."""

import numpy as np

from keras_encdec.smt.evaluation.corpus_metric import REFERENCE_LENGTH, Array
from keras_encdec.smt.tuning.line_search import best_step
from keras_encdec.smt.tuning.nbest_features import NBestFeatures

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
    return np.where(spread > 0, spread, 1.0)


def _ascend(nbest: NBestFeatures, weights: Array, spread: Array, rng: np.random.Generator) -> tuple[Array, float]:
    """Searches along lines from a starting point; returns the best weights, scaled, and their score."""
    score = nbest.quick_score(weights)
    while True:
        before = score
        for direction in _directions(spread, rng):
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


def _directions(spread: Array, rng: np.random.Generator) -> Array:
    """Returns the axes and the same number of random directions, in random order."""
    directions = np.concatenate([np.diag(1 / spread), rng.normal(size=(len(spread), len(spread))) / spread])
    return rng.permutation(directions)


ROUNDS = 30
# C in the paper.
MAX_STEP = 0.01
# Factor by which the counts of the preceding sentences decay with every sentence.
_DECAY = 0.999


def mira(
    nbest: NBestFeatures,
    weights: Array,
    rng: np.random.Generator,
    rounds: int = ROUNDS,
    longest_step: float = MAX_STEP,
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
    ends = np.append(nbest.starts[1:], len(features))
    sentences = [(features[start:end], nbest.counts[start:end]) for start, end in zip(nbest.starts, ends, strict=True)]
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
