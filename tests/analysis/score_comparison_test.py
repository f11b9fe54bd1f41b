import math

import numpy as np
import pytest

from keras_encdec.analysis import ScoreComparison, TablePair

PROBABILITIES = [0.5, 0.0, 0.25, 1.0, 0.25]
PAIRS = [TablePair("s", f"t {i}", probability, 1) for i, probability in enumerate(PROBABILITIES)]


def test_scores_are_compared_in_nats_without_pairs_of_probability_0():
    comparison = ScoreComparison.of(PAIRS, np.array([-1.0, -5.0, -2.0, -4.0, -0.5]))
    assert comparison.left_out == 1 and [pair.target for pair in comparison.pairs] == ["t 0", "t 2", "t 3", "t 4"]
    np.testing.assert_allclose(comparison.table, np.log([0.5, 0.25, 1, 0.25]))
    expected = np.corrcoef(comparison.table, comparison.model)[0, 1]
    assert comparison.correlation == pytest.approx(expected)
    ranks = np.corrcoef([3, 1.5, 4, 1.5], [3, 2, 1, 4])[0, 1]
    assert comparison.rank_correlation == pytest.approx(ranks)


def test_the_most_differing_pairs_are_found():
    comparison = ScoreComparison.of(PAIRS, np.array([-1.0, -5.0, -2.0, -4.0, -0.5]))
    more, less = comparison.most_differing(2)
    assert more.tolist() == [3], "the only one that the model gives more"
    assert less.tolist() == [2, 1]


def test_a_single_pair_has_no_correlation():
    comparison = ScoreComparison.of(PAIRS[:1], np.array([-1.0]))
    assert math.isnan(comparison.correlation) and math.isnan(comparison.rank_correlation)


def test_the_view_leaves_out_the_few_pairs_of_very_low_scores():
    pairs = [TablePair("s", f"t {i}", 0.25 + i / 2000, 1) for i in range(1000)]
    scores = np.linspace(-3, -1, 1000)
    scores[17] = -50
    left, bottom, right, top = ScoreComparison.of(pairs, scores).view
    assert -4 < bottom < -3 and top == -1 and left < np.log(0.25) and right == pytest.approx(np.log(0.7495))
    assert ScoreComparison.of(pairs, scores).out_of_view == 1
    assert ScoreComparison.of(pairs[:1], scores[:1]).out_of_view == 0
