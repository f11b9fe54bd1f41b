"""Beam search and greedy search against exhaustive search, and against the equations."""

import sys

import numpy as np
import oracle
import pytest
from keras import ops
from toy_search import END, sequences, toy

from keras_encdec.data import pad
from keras_encdec.decoding import BeamSampler, Generator, GreedySampler
from keras_encdec.scoring import Scorer

SOURCES = [[3, 2], [4, 5, 2], [7, 2], [8, 3, 1, 7, 2], [6, 6, 6, 2]]


def searched(model, sampler, limit):
    """Hypotheses of at most `limit` tokens, their ends included."""
    return Generator(model).generate(SOURCES, sampler, max_length=limit - 1)


@pytest.mark.parametrize("length_penalty", [0.0, 0.8])
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all(length_penalty):
    model, _ = toy()
    every = sequences(model, 4)
    sampler = BeamSampler(len(every), num_best=len(every), length_penalty=length_penalty)
    for source, found in zip(SOURCES, searched(model, sampler, 4), strict=True):
        scores = ops.convert_to_numpy(model.score(pad([source] * len(every)), pad(every))).astype(float)
        ranks = scores / ((5 + np.array([len(ids) for ids in every])) / 6) ** length_penalty
        order = np.argsort(-ranks)
        assert len(found) == len(every)
        np.testing.assert_allclose([hypothesis.log_prob for hypothesis in found], scores[order], atol=1e-4)
        np.testing.assert_allclose([hypothesis.score for hypothesis in found], ranks[order], atol=1e-4)
        assert found[0].ids == every[order[0]]


@pytest.mark.usefixtures("uncompiled")
def test_a_search_is_not_over_while_a_longer_sequence_may_rank_higher():
    for seed in range(3):
        model, _ = toy(seed=seed)
        width = len(sequences(model, 4))
        every = searched(model, BeamSampler(width, num_best=width, length_penalty=2.0), 4)
        best = searched(model, BeamSampler(width, length_penalty=2.0), 4)
        assert [found[0].ids for found in best] == [found[0].ids for found in every]


@pytest.mark.usefixtures("uncompiled")
def test_the_log_probability_is_that_of_the_models_score():
    model, _ = toy(target_words=40, seed=1)
    found = Generator(model).generate(SOURCES, BeamSampler(6, num_best=6))
    pairs = [(source, hypothesis.ids) for source, some in zip(SOURCES, found, strict=True) for hypothesis in some]
    assert len(pairs) == 6 * len(SOURCES) == len({(tuple(source), ids) for source, ids in pairs})
    expected = Scorer(model).score(pairs)
    np.testing.assert_allclose([hypothesis.log_prob for some in found for hypothesis in some], expected, atol=1e-4)
    assert all(list(some) == sorted(some, key=lambda hypothesis: -hypothesis.score) for some in found)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("reset_after", [False, True])
def test_greedy_search_takes_the_equations_most_probable_word(reset_after):
    model, weights = toy(target_words=20, seed=2, reset_after=reset_after)
    for source, [found] in zip(SOURCES, Generator(model).generate(SOURCES), strict=True):
        words, limit = [], 11
        while words[-1:] != [END]:
            row = oracle.token_log_probs(weights, source, [*words, 0], reset_after)[-1]
            row[0] = -np.inf
            words.append(int(row.argmax()) if len(words) < limit - 1 else END)
        assert list(found.ids) == words
        assert found.log_prob == pytest.approx(oracle.score(weights, source, words, reset_after), abs=1e-4)


@pytest.mark.usefixtures("uncompiled")
def test_greedy_search_is_a_beam_of_one():
    model, _ = toy(target_words=20, seed=3)
    for suppress_unknown in (False, True):
        greedy = Generator(model).generate(SOURCES, GreedySampler(suppress_unknown))
        beam = Generator(model).generate(SOURCES, BeamSampler(1, suppress_unknown=suppress_unknown))
        assert [best.ids for [best] in greedy] == [best.ids for [best] in beam]
        log_probs = ([best.log_prob for [best] in found] for found in (greedy, beam))
        np.testing.assert_allclose(*log_probs, atol=1e-5)


@pytest.mark.usefixtures("uncompiled")
def test_a_wide_beam_finds_better_targets_than_a_narrow_beam():
    model, _ = toy(target_words=20, seed=4)
    narrow, wide = (Generator(model).generate(SOURCES, BeamSampler(width)) for width in (1, 30))
    gains = [w.log_prob - n.log_prob for [n], [w] in zip(narrow, wide, strict=True)]
    assert max(gains) > 0.01 and sum(gains) > 0


@pytest.mark.usefixtures("uncompiled")
def test_suppressing_the_unknown_word_leaves_the_scores_unchanged():
    model, weights = toy(target_words=8)
    weights["readout.b_G"][1] = 3.0
    model.decoder.readout.output_bias.assign(weights["readout.b_G"])
    with_it = Generator(model).generate(SOURCES, BeamSampler(4, num_best=4))
    assert any(1 in hypothesis.ids for some in with_it for hypothesis in some)
    without = Generator(model).generate(SOURCES, BeamSampler(4, num_best=4, suppress_unknown=True))
    assert not any(1 in hypothesis.ids for some in without for hypothesis in some)
    pairs = [(source, hypothesis.ids) for source, some in zip(SOURCES, without, strict=True) for hypothesis in some]
    np.testing.assert_allclose(
        [hypothesis.log_prob for some in without for hypothesis in some], Scorer(model).score(pairs), atol=1e-4
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_beams": 0}, "num_beams=0, expected a whole number, 1 or more"),
        ({"num_beams": 2, "num_best": 3}, "num_best=3, expected 1 to num_beams, 2"),
        ({"num_beams": 2, "length_penalty": -1.0}, "length_penalty=-1.0, expected a number, 0 to 10"),
        ({"num_beams": 2, "length_penalty": float("nan")}, "length_penalty=nan, expected a number"),
        ({"num_beams": 2, "coverage_penalty": 1e300}, "coverage_penalty=1e.300, expected a number, 0 to 1000"),
    ],
)
def test_numbers_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BeamSampler(**arguments)


def test_the_limit_of_whole_numbers_is_named():
    with pytest.raises(ValueError, match=f"expected a whole number, 1 or more, at most {sys.maxsize}$"):
        BeamSampler(2**70)


def test_numbers_of_numpy_are_numbers():
    sampler = BeamSampler(np.int64(2), length_penalty=np.float32(0.5), coverage_penalty=np.int64(1))
    assert sampler == BeamSampler(2, length_penalty=0.5, coverage_penalty=1.0)
    assert [type(value) for value in sampler.to_dict().values()] == [int, int, float, float, bool]
    with pytest.raises(ValueError, match="length_penalty=np.float32.nan., expected a number, 0 to 10"):
        BeamSampler(2, length_penalty=np.float32("nan"))
