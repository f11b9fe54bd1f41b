"""Minimum error rate training, and its exact line searches compared with trying many points."""

import dataclasses
import gzip
import itertools

import numpy as np
import pytest
from brute_force_lines import check_searches
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_nbest import scores_of, toy_nbest

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats import read_weights
from keras_encdec.smt import decode_nbest, estimate_ngrams
from keras_encdec.smt.tuning import best_step, line_scores, mert, upper_envelopes

pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")


@pytest.mark.parametrize("features, metric", [(2, "bleu"), (2, "chrf"), (3, "bleu")])
def test_it_finds_what_a_fine_grid_finds(features, metric):
    nbest = toy_nbest(features, sentences=10, hypotheses=8, features=features, metric=metric)
    angles = np.linspace(0, 2 * np.pi, 1200 if features == 2 else 120, endpoint=False) + 0.001
    grid = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if features == 3:
        heights = np.linspace(-0.999, 0.999, 60)
        grid = np.concatenate([np.c_[grid * np.sqrt(1 - z * z), np.full(len(grid), z)] for z in heights])
    optimum = scores_of(nbest, grid).max()
    result = mert(nbest, np.zeros(features), np.random.default_rng(1), restarts=3)
    assert nbest.quick_score(result) >= optimum - 1e-9
    if features == 2:
        assert nbest.quick_score(result) == pytest.approx(optimum)  # the grid is fine enough for every interval


def test_equal_seeds_give_equal_weights_and_it_never_gets_worse():
    nbest = toy_nbest(5, features=4)
    begin = np.array([0.1, -1.0, 0.3, 0.2])
    first, again, other = (mert(nbest, begin, np.random.default_rng(seed), restarts=1) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert min(nbest.score(first), nbest.score(other)) > nbest.score(begin)
    assert nbest.score(mert(nbest, begin, np.random.default_rng(1), restarts=0)) > nbest.score(begin)


@pytest.mark.parametrize("seed, along_axes", [(0, 51.93), (2, 62.82)])
def test_random_directions_improve_on_the_axes(seed, along_axes):
    nbest = toy_nbest(seed, sentences=20, hypotheses=10, features=4)
    result = mert(nbest, np.array([0.1, -1.0, 0.3, 0.2]), np.random.default_rng(1), restarts=0)
    assert nbest.score(result) > along_axes + 1


def test_weights_of_0_are_not_a_starting_point():
    nbest = toy_nbest(7, features=2)
    best = np.argsort(-nbest.metric.sentence_scores(nbest.counts), kind="stable")
    in_order = best[np.argsort(nbest.sentence_of[best], kind="stable")]  # the best of each sentence first
    nbest = dataclasses.replace(nbest, features=nbest.features[in_order], counts=nbest.counts[in_order])
    result = mert(nbest, np.zeros(2), np.random.default_rng(1), restarts=1)
    assert result.any() and nbest.score(result) < nbest.score(np.zeros(2))


def test_lists_with_one_hypothesis_per_sentence_leave_the_weights():
    begin = np.array([0.5, 0.25, 0.25])
    result = mert(toy_nbest(1, hypotheses=1), begin, np.random.default_rng(1), restarts=1)
    np.testing.assert_allclose(result, begin)


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


def test_no_step_is_made_if_nothing_changes_along_the_line():
    nbest = toy_nbest(1, hypotheses=1)
    assert best_step(nbest, np.ones(3), np.ones(3)) == (0.0, pytest.approx(nbest.score(np.ones(3))))
    nbest = toy_nbest(1)
    assert best_step(nbest, np.ones(3), np.zeros(3)) == (0.0, pytest.approx(nbest.score(np.ones(3))))


def test_line_searches_find_the_best_points_of_their_lines(tmp_path, monkeypatch):
    data = libreoffice_en_fr()
    with gzip.open(data.train_target, "rb") as lines:
        (tmp_path / "train").write_bytes(b"".join(itertools.islice(lines, 2000)))
    for name in ("source", "target"):
        with open(getattr(data, f"dev_{name}"), "rb") as lines:
            (tmp_path / name).write_bytes(b"".join(itertools.islice(lines, 60)))
    estimate_ngrams(tmp_path / "train", tmp_path / "arpa", order=3)
    nbest = tmp_path / "nbest.gz"
    weights, _ = read_weights(data.moses_ini)
    decode_nbest(tmp_path / "source", data.phrase_table, tmp_path / "arpa", nbest, nbest_size=30, number_of_processes=1)
    searches, points, difference = check_searches(nbest, tmp_path / "target", weights, monkeypatch)
    assert searches > 60 and points > 400 and difference < 1e-6
