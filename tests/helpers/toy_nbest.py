"""Small n-best lists as arrays, drawn at random."""

import numpy as np

from keras_encdec.smt.evaluation import CorpusMetric
from keras_encdec.smt.tuning import NBestFeatures

WORDS = ["a", "b", "c", "d", "e", "f"]


def toy_nbest(seed, sentences=8, hypotheses=6, features=3, whole=False, metric="bleu"):
    """Draws a list whose first feature correlates with the quality of a hypothesis.

    Args:
        seed: int.
        sentences, hypotheses, features: int. `hypotheses` is the maximum for a sentence.
        whole: bool. Whether features are small whole numbers, so that totals are often equal.
        metric: str.

    Returns:
        NBestFeatures.
    """
    rng = np.random.default_rng(seed)
    references = [" ".join(rng.choice(WORDS, 8)) for _ in range(sentences)]
    metric = CorpusMetric(metric, [references])
    counts, rows, starts = [], [], []
    for number, reference in enumerate(references):
        starts.append(len(rows))
        for _ in range(rng.integers(1, hypotheses + 1)):
            flaws = rng.random()
            words = [str(rng.choice(WORDS)) if rng.random() < flaws else word for word in reference.split()]
            counts.append(metric.counts(number, " ".join(words[: rng.integers(5, 9)])))
            told = [-3 * flaws + 0.3 * rng.normal(), *2 * rng.normal(size=features - 1)]
            rows.append(np.round(told) if whole else told)
    lengths = {"LM0": features - 1, "TM0": 1} if features > 1 else {"LM0": 1}
    return NBestFeatures(lengths, np.array(rows), np.array(counts), np.array(starts), metric)


def scores_of(nbest, weights):
    """Computes the scores of many weights `(n, values)` by trying each on every hypothesis."""
    totals = nbest.features @ np.transpose(weights)
    ends = [*nbest.starts[1:], len(totals)]
    best = [start + totals[start:end].argmax(axis=0) for start, end in zip(nbest.starts, ends, strict=True)]
    return nbest.metric.scores(sum(nbest.counts[rows] for rows in best))
