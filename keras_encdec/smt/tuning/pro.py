"""Pairwise ranking optimization: finds weights that give the better of two hypotheses the higher total."""

import numpy as np

from keras_encdec.smt.evaluation.corpus_metric import Array
from keras_encdec.smt.tuning.mert import feature_spread
from keras_encdec.smt.tuning.nbest_features import NBestFeatures

SAMPLED, KEPT = 5000, 50
LEAST_DIFFERENCE = 0.05
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
        apart = np.flatnonzero(np.abs(differences) >= LEAST_DIFFERENCE)
        most = apart[np.argsort(-np.abs(differences[apart]), kind="stable")[:kept]]
        first_is_better = differences[most] > 0
        better.append(np.where(first_is_better, *pairs[:, most]))
        worse.append(np.where(first_is_better, *pairs[::-1, most]))
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
    return max(candidates, key=nbest.quick_score)  # of equals the first, nearest to the learned weights


def separating_weights(rows: Array) -> Array:
    """Separates rows from their negatives by logistic regression, with Newton's method.

    Args:
        rows: float64 array `(rows, values)`, one class. Their negatives are the other class.

    Returns:
        float64 array `(values,)`.
    """
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
