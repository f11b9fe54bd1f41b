"""Minimum error rate training compared with trying many points."""

import dataclasses
import gzip
import itertools

import numpy as np
import pytest
from brute_force_lines import check_searches
from toy_nbest import scores_of, toy_nbest

from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats import read_weights
from keras_encdec.smt import decode_nbest, estimate_ngrams
from keras_encdec.smt.tuning import mert
from keras_encdec.smt.tuning.weight_searches import feature_spread

pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")


@pytest.mark.parametrize("features, metric", [(2, "bleu"), (2, "chrf"), (3, "bleu")])
def test_mert_reaches_the_best_score_of_a_fine_grid(features, metric):
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


@pytest.mark.parametrize("value", [0.3, 0.7, -12.6])
def test_a_feature_that_is_equal_for_all_hypotheses_of_a_sentence_leaves_the_others_their_weights(value):
    nbest = toy_nbest(2, sentences=10, hypotheses=7, features=2)  # the mean of seven equal values is rounded
    constant = dataclasses.replace(
        nbest,
        lengths={**nbest.lengths, "Constant0": 1},
        features=np.c_[nbest.features, value + 0.1 * nbest.sentence_of],
    )
    np.testing.assert_allclose(feature_spread(constant), [*feature_spread(nbest), 1.0])
    results = [
        mert(each, np.zeros(size), np.random.default_rng(1), restarts=3) for each, size in ((nbest, 2), (constant, 3))
    ]
    assert constant.quick_score(results[1]) == pytest.approx(nbest.quick_score(results[0]))


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


def test_line_searches_find_the_best_points_of_their_lines(tmp_path, monkeypatch):
    data = libreoffice_en_fr()
    with gzip.open(data.train_target, "rb") as lines:
        (tmp_path / "train").write_bytes(b"".join(itertools.islice(lines, 2000)))
    for name in ("source", "target"):
        with open(getattr(data, f"dev_{name}"), "rb") as lines:
            (tmp_path / name).write_bytes(b"".join(itertools.islice(lines, 60)))
    estimate_ngrams(tmp_path / "train", tmp_path / "arpa", order=3)
    nbest = tmp_path / "nbest.gz"
    weights = read_weights(data.moses_ini)
    decode_nbest(tmp_path / "source", data.phrase_table, tmp_path / "arpa", nbest, nbest_size=30, number_of_processes=1)
    searches, points, difference = check_searches(nbest, tmp_path / "target", weights, monkeypatch)
    assert searches > 60 and points > 400 and difference < 1e-6
