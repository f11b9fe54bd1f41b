"""Checks MERT's line searches by brute force: all hypotheses are ranked, and the best scored by sacrebleu."""

import collections
import gzip
import html

import numpy as np
import sacrebleu

from keras_encdec.smt.evaluation import CorpusMetric
from keras_encdec.smt.tuning import line_scores, read_nbest_features, weight_searches

# Relative width of an interval within which a total in another order of additions may fall on its other side.
NARROW = 1e-6


def read_list(path):
    """The texts and features `(hypotheses, values)` of each sentence of a gzipped list, by splitting its lines."""
    sentences = collections.defaultdict(lambda: ([], []))
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            number, text, features, *_ = line.split(" ||| ")
            texts, rows = sentences[int(number)]
            texts.append(html.unescape(" ".join(text.split())))
            rows.append([float(word) for word in features.split() if not word.endswith("=")])
    return [(texts, np.array(rows)) for _, (texts, rows) in sorted(sentences.items())]


def record_searches(nbest, weights, seed, restarts, monkeypatch):
    """Runs `mert`; the result, and of each of its line searches weights, direction, step and score."""
    searches, best_step = [], weight_searches.best_step

    def recorded(nbest, weights, direction):
        step, score = best_step(nbest, weights, direction)
        searches.append((weights.copy(), direction.copy(), step, score))
        return step, score

    monkeypatch.setattr(weight_searches, "best_step", recorded)
    return weight_searches.mert(nbest, weights, np.random.default_rng(seed), restarts), searches


def check_searches(path, references, weights, monkeypatch, *, seed=1, restarts=3, sample=20, points=40):
    """Checks searches, drawn from all that MERT makes on a list, at points drawn from the whole line of each.

    Args:
        path: of a gzipped n-best list without missing sentences.
        references: file of the references.
        weights: dict of the weights to begin with.
        monkeypatch: pytest's.
        seed, restarts: see `mert`.
        sample: int. How many searches are checked.
        points: int. How many points of each line are tried in addition to the one that the search found.

    Returns:
        the number of searches, that of points tried, and the largest difference between a line's score at a point and
        sacrebleu's, in BLEU.
    """
    with open(references, encoding="utf-8") as lines:
        texts = [html.unescape(line.strip()) for line in lines]
    nbest = read_nbest_features([path], [references], CorpusMetric("bleu", [texts]))
    sentences, rng, differences = read_list(path), np.random.default_rng(seed), []

    def tried(weights):
        best = [texts[int(np.argmax(rows @ weights))] for texts, rows in sentences]
        return sacrebleu.corpus_bleu(best, [texts], tokenize="none", force=True).score

    _, searches = record_searches(nbest, nbest.to_array(weights), seed, restarts, monkeypatch)
    for number in rng.choice(len(searches), min(sample, len(searches)), replace=False):
        start, direction, step, score = searches[number]
        steps, scores = line_scores(nbest, start, direction)
        ends = np.concatenate([[steps[0] - 1], steps, [steps[-1] + 1]])
        wide = np.flatnonzero(np.diff(ends) > NARROW * np.abs(ends).max())
        assert score >= scores[wide].max() - 1e-9, "an interval of the line is better than the one that was found"
        for interval in rng.choice(wide, min(points, len(wide)), replace=False):
            found = tried(start + (ends[interval] + ends[interval + 1]) / 2 * direction)
            differences.append(abs(found - scores[interval]))
        differences.append(abs(tried(start + step * direction) - score))
    return len(searches), len(differences), max(differences)
