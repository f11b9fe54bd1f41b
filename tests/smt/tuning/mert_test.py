"""Minimum error rate training."""

import dataclasses

import numpy as np
import pytest
from toy_nbest import scores_of, toy_nbest

from keras_encdec.smt.tuning import mert


@pytest.mark.parametrize("features, metric", [(2, "bleu"), (2, "chrf"), (3, "bleu")])
def test_it_finds_what_a_fine_grid_finds(features, metric):
    nbest = toy_nbest(features, sentences=10, hypotheses=8, features=features, metric=metric)
    angles = np.linspace(0, 2 * np.pi, 1200 if features == 2 else 120, endpoint=False) + 0.001
    grid = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if features == 3:
        heights = np.linspace(-0.999, 0.999, 60)
        grid = np.concatenate([np.c_[grid * np.sqrt(1 - z * z), np.full(len(grid), z)] for z in heights])
    optimum = scores_of(nbest, grid).max()
    found = mert(nbest, np.zeros(features), np.random.default_rng(1), restarts=3)
    assert nbest.quick_score(found) >= optimum - 1e-9
    if features == 2:
        assert nbest.quick_score(found) == pytest.approx(optimum)  # the grid is fine enough for every interval


def test_equal_seeds_give_equal_weights_and_it_never_gets_worse():
    nbest = toy_nbest(5, features=4)
    begin = np.array([0.1, -1.0, 0.3, 0.2])
    first, again, other = (mert(nbest, begin, np.random.default_rng(seed), restarts=1) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert min(nbest.score(first), nbest.score(other)) > nbest.score(begin)
    assert nbest.score(mert(nbest, begin, np.random.default_rng(1), restarts=0)) > nbest.score(begin)


@pytest.mark.parametrize("seed, along_axes", [(0, 51.93), (2, 62.82)])
def test_random_directions_lead_on_where_the_axes_end(seed, along_axes):
    nbest = toy_nbest(seed, sentences=20, hypotheses=10, features=4)
    found = mert(nbest, np.array([0.1, -1.0, 0.3, 0.2]), np.random.default_rng(1), restarts=0)
    assert nbest.score(found) > along_axes + 1


def test_the_order_of_the_list_is_no_weights():
    nbest = toy_nbest(7, features=2)
    best = np.argsort(-nbest.metric.sentence_scores(nbest.counts), kind="stable")
    in_order = best[np.argsort(nbest.sentence_of[best], kind="stable")]  # the best of each sentence first
    nbest = dataclasses.replace(nbest, features=nbest.features[in_order], counts=nbest.counts[in_order])
    found = mert(nbest, np.zeros(2), np.random.default_rng(1), restarts=1)
    assert found.any() and nbest.score(found) < nbest.score(np.zeros(2))


def test_one_hypothesis_a_sentence_leaves_the_weights():
    begin = np.array([0.5, 0.25, 0.25])
    found = mert(toy_nbest(1, hypotheses=1), begin, np.random.default_rng(1), restarts=1)
    np.testing.assert_allclose(found, begin)
