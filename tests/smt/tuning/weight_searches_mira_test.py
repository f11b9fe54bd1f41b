"""Batch MIRA."""

import numpy as np
import pytest
from toy_nbest import toy_nbest

from keras_encdec.smt.tuning import mira


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_it_learns_which_feature_predicts_the_score(metric):
    nbest = toy_nbest(3, sentences=60, hypotheses=10, metric=metric)
    uniform = np.ones(3)
    result = mira(nbest, uniform, np.random.default_rng(1), rounds=8)
    assert nbest.score(result) > nbest.score(uniform) + 3
    assert result[0] > 2 * np.abs(result[1:]).max()
    again, other = (mira(nbest, uniform, np.random.default_rng(seed), rounds=8) for seed in (1, 2))
    np.testing.assert_array_equal(result, again)
    assert (result != other).any()


def test_a_step_from_fear_to_hope_is_as_long_as_the_margin_requires():
    nbest = toy_nbest(4, sentences=1, hypotheses=6)
    begin = np.array([0.2, -0.5, 0.3])
    for longest_step in (1e-3, 1e3):
        result = mira(nbest, begin, np.random.default_rng(1), rounds=1, longest_step=longest_step)
        rows = (nbest.features - nbest.features.mean(axis=0)) / nbest.features.std(axis=0)
        weights = begin * nbest.features.std(axis=0)
        weights /= np.linalg.norm(weights)
        counts = nbest.counts + 1
        gains = nbest.metric.scores(counts) / 100 * counts[:, 1]
        hope, fear = np.argmax(rows @ weights + gains), np.argmax(rows @ weights - gains)
        assert hope != fear
        away = rows[hope] - rows[fear]
        step = min(longest_step, (gains[hope] - gains[fear] - away @ weights) / (away @ away))
        np.testing.assert_allclose(result * nbest.features.std(axis=0), weights + step * away)


def test_lists_with_one_hypothesis_per_sentence_leave_the_weights():
    begin = np.array([0.5, -0.25, 0.25])
    result = mira(toy_nbest(1, hypotheses=1), begin, np.random.default_rng(1), rounds=2)
    np.testing.assert_allclose(result / np.abs(result).sum(), begin)
