"""Pairwise ranking optimization."""

import numpy as np
import pytest
from toy_nbest import toy_nbest

from keras_encdec.smt.tuning import mert, pro
from keras_encdec.smt.tuning.weight_searches import feature_spread, separating_weights


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_it_learns_which_feature_predicts_the_score(metric):
    nbest = toy_nbest(3, sentences=100, hypotheses=10, metric=metric)
    uniform = np.ones(3)
    result = pro(nbest, uniform, np.random.default_rng(1), sampled=200)
    assert nbest.score(result) > nbest.score(uniform) + 3
    assert result[0] > 2 * np.abs(result[1:]).max()
    np.testing.assert_array_equal(result, pro(nbest, uniform, np.random.default_rng(1), sampled=200))


def test_lists_with_one_hypothesis_per_sentence_leave_the_weights():
    begin = np.array([0.5, -0.25, 0.25])
    np.testing.assert_array_equal(pro(toy_nbest(1, hypotheses=1), begin, np.random.default_rng(1)), begin)


@pytest.mark.parametrize("separable", [True, False])
def test_the_regression_is_at_its_optimum(separable):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(300, 3)) + [1.0, 0.0, 0.0]
    rows = np.abs(rows) if separable else rows
    weights = separating_weights(rows)
    gradient = rows.T @ (1 / (1 + np.exp(rows @ weights))) / len(rows) - 1e-4 * weights
    assert np.isfinite(weights).all() and np.abs(gradient).max() < 1e-7


def test_the_weights_lie_between_the_initial_and_the_learned_weights():
    nbest = toy_nbest(5, sentences=20, hypotheses=10)
    learned = pro(nbest, np.zeros(3), np.random.default_rng(1), sampled=50)
    begin = mert(nbest, learned, np.random.default_rng(1))
    assert nbest.score(begin) > nbest.score(learned)
    result = pro(nbest, begin, np.random.default_rng(1), sampled=50)
    spread = feature_spread(nbest)
    ends = [candidate * spread / np.linalg.norm(candidate * spread) for candidate in (begin, learned)]
    tenths = [(1 - share / 10) * ends[0] + share / 10 * ends[1] for share in range(1, 11)]
    best = max(nbest.score(candidate / spread) for candidate in tenths)
    assert nbest.score(result) == pytest.approx(best) and best > nbest.score(learned)
    assert any(np.allclose(result * spread, candidate) for candidate in tenths)
