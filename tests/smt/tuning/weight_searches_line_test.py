"""Exact line searches compared with trying many points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_nbest import scores_of, toy_nbest

from keras_encdec.smt.evaluation import CorpusMetric
from keras_encdec.smt.tuning import best_step, line_scores, upper_envelopes
from keras_encdec.smt.tuning.nbest_features import NBestFeatures

pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")


NUMBERS = st.integers(-3, 3) | st.floats(-100, 100, allow_nan=False, width=16)
LINES = st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6), min_size=1, max_size=4)


@settings(max_examples=40)
@given(LINES)
def test_the_envelope_is_the_highest_line_everywhere(sentences):
    intercepts, slopes = np.array([line for lines in sentences for line in lines], np.float64).T
    sizes = [len(lines) for lines in sentences]
    starts = np.cumsum([0, *sizes[:-1]])
    first, steps, before, after = upper_envelopes(intercepts, slopes, starts)
    sentence_of = np.repeat(np.arange(len(sizes)), sizes)
    assert (np.diff(steps) >= 0).all()
    assert (sentence_of[before] == sentence_of[after]).all() and (slopes[after] > slopes[before]).all()
    present, points = first.copy(), [steps[0] - 1 if len(steps) else 0.0, *steps, steps[-1] + 1 if len(steps) else 1.0]
    passed = 0
    for x in [(a + b) / 2 for a, b in zip(points, points[1:], strict=False)]:
        while passed < len(steps) and steps[passed] < x:
            assert present[sentence_of[before[passed]]] == before[passed]
            present[sentence_of[after[passed]]] = after[passed]
            passed += 1
        totals = intercepts + x * slopes
        np.testing.assert_allclose(totals[present], np.maximum.reduceat(totals, starts), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_scores_along_a_line_are_those_of_its_points(seed, metric):
    nbest = toy_nbest(seed, sentences=12, hypotheses=15, metric=metric)
    rng = np.random.default_rng(seed)
    weights, direction = rng.normal(size=(2, 3))
    steps, scores = line_scores(nbest, weights, direction)
    assert len(steps) > 12
    points = np.concatenate([[steps[0] - 1], (steps[1:] + steps[:-1]) / 2, [steps[-1] + 1]])
    wide = np.diff(np.concatenate([[-np.inf], steps, [np.inf]])) > 1e-9
    tried = scores_of(nbest, weights + points[:, None] * direction)
    np.testing.assert_allclose(scores[wide], tried[wide], rtol=1e-12)
    step, score = best_step(nbest, weights, direction)
    assert score == pytest.approx(tried[wide].max()) and nbest.score(weights + step * direction) == pytest.approx(score)


@pytest.mark.parametrize("seed", range(3))
def test_equal_totals_do_no_harm(seed):
    nbest = toy_nbest(seed, whole=True)
    for direction in np.eye(3):
        weights = np.array([1.0, 0.0, -1.0])
        step, score = best_step(nbest, weights, direction)
        points = np.arange(-8, 8, 1 / 64) + 1 / 997
        tried = scores_of(nbest, weights + points[:, None] * direction)
        assert score == pytest.approx(tried.max()) == pytest.approx(nbest.score(weights + step * direction))


def test_a_change_far_away_hides_no_interval():
    """The hypothesis "b c" of the first sentence is the best between 1 and 6; the second sentence changes at 5e9."""
    metric = CorpusMetric("bleu", [["b c d e", "x"]])
    counts = [metric.counts(0, text) for text in ("y", "b c d e", "z")] + [metric.counts(1, "x")] * 2
    features = np.array([[0, 0], [-1, 1], [-7, 2], [0, 0], [-5, 1e-9]], np.float64)
    nbest = NBestFeatures({"A": 1, "B": 1}, features, np.array(counts), np.array([0, 3]), metric)
    step, score = best_step(nbest, np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert 1 < step < 6 and score == pytest.approx(100) == nbest.score(np.array([1.0, step]))


def test_no_step_is_made_if_nothing_changes_along_the_line():
    nbest = toy_nbest(1, hypotheses=1)
    assert best_step(nbest, np.ones(3), np.ones(3)) == (0.0, pytest.approx(nbest.score(np.ones(3))))
    nbest = toy_nbest(1)
    assert best_step(nbest, np.ones(3), np.zeros(3)) == (0.0, pytest.approx(nbest.score(np.ones(3))))
