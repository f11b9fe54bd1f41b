"""Minimum error rate training: weights with the best score of the metric itself."""

import numpy as np

from keras_encdec.tuning.corpus_metric import Array
from keras_encdec.tuning.line_search import best_step
from keras_encdec.tuning.nbest_features import NBestFeatures

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
