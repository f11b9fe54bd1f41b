"""Batch MIRA: finds weights that rank better hypotheses higher, by a margin of their difference in the metric."""

import numpy as np

from keras_encdec.smt.evaluation.corpus_metric import REFERENCE_LENGTH, Array
from keras_encdec.smt.tuning.mert import feature_spread
from keras_encdec.smt.tuning.nbest_features import NBestFeatures

ROUNDS = 30
# C in the paper.
LONGEST_STEP = 0.01
# Factor by which the counts of the preceding sentences decay with every sentence.
_DECAY = 0.999


def mira(
    nbest: NBestFeatures,
    weights: Array,
    rng: np.random.Generator,
    rounds: int = ROUNDS,
    longest_step: float = LONGEST_STEP,
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
    now = weights * spread
    norm = np.linalg.norm(now)
    now = now / norm if norm > 0 else now
    before = np.ones(nbest.counts.shape[1])
    best, best_score = weights, -np.inf
    for _ in range(rounds):
        total = np.zeros_like(now)
        for number in rng.permutation(len(sentences)):
            rows, counts = sentences[number]
            together = counts + before
            gains = nbest.metric.scores(together) / 100 * together[:, REFERENCE_LENGTH]
            totals = rows @ now
            hope, fear = int(np.argmax(totals + gains)), int(np.argmax(totals - gains))
            before = _DECAY * (before + counts[hope])
            away = rows[hope] - rows[fear]
            loss = gains[hope] - gains[fear] - away @ now
            size = away @ away
            if loss > 0 and size > 0:
                now = now + min(longest_step, loss / size) * away
            total += now
        averaged = total / len(sentences) / spread
        score = nbest.quick_score(averaged)
        if score > best_score:
            best, best_score = averaged, score
    return best
