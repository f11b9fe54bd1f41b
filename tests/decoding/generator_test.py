"""Generation for many sources, and by several models."""

import re

import numpy as np
import pytest
from keras import ops
from toy_contract import expected_log_probs, window_model
from toy_search import SIZES, sequences, toy

from keras_encdec.data import pad
from keras_encdec.decoding import BeamSampler, Ensemble, Generator, GreedySampler, RandomSampler, search_batches
from keras_encdec.models import RNNEncoderDecoder


def random_sources(number, longest, seed=0):
    random = np.random.default_rng(seed)
    return [[*random.integers(3, 9, random.integers(1, longest)).tolist(), 2] for _ in range(number)]


def test_a_source_gets_the_same_targets_alone_and_among_others(monkeypatch):
    """The sources are too many for one batch and of mixed lengths, so that batches shrink as searches end."""
    monkeypatch.setattr(search_batches, "MAX_ROWS", 96)
    model, _ = toy(target_words=12, seed=1)
    sources = random_sources(40, 20)
    sampler = BeamSampler(6, num_best=2)
    several = Generator(model)
    together = several.generate(sources, sampler)
    for source, expected in zip(sources, together, strict=True):
        [alone] = several.generate([source], sampler)
        assert [hypothesis.ids for hypothesis in alone] == [hypothesis.ids for hypothesis in expected]
        np.testing.assert_allclose([o.log_prob for o in alone], [o.log_prob for o in expected], atol=1e-5)


@pytest.mark.usefixtures("uncompiled")
def test_sources_may_be_a_padded_array_and_models_a_tuple():
    model, _ = toy(target_words=12)
    sources = random_sources(5, 6)
    alone = Generator(model)
    assert alone.generate(pad(sources, 9)) == alone.generate(sources)
    assert alone.generate([]) == []
    assert Generator((model, model)).generate(sources)[0][0].ids == alone.generate(sources)[0][0].ids


@pytest.mark.usefixtures("uncompiled")
def test_the_length_limit_follows_the_source():
    model, weights = toy(target_words=12)
    weights["readout.b_G"][2] = -30.0  # no target ends before the limit
    model.decoder.readout.output_bias.assign(weights["readout.b_G"])
    sources = [[3, 2], [4] * 20 + [2]]
    found = Generator(model).generate(sources)
    assert [len(best.ids) - 1 for [best] in found] == [10, 30]
    found = Generator(model).generate(sources, BeamSampler(3), max_length_factor=2.05)
    assert [len(best.ids) - 1 for [best] in found] == [10, 41]


@pytest.mark.usefixtures("uncompiled")
def test_the_target_of_an_empty_source_is_empty():
    model, _ = toy(target_words=12)
    for sampler in ("greedy", BeamSampler(3, num_best=3), RandomSampler(4)):
        [[found, *others], _] = Generator(model).generate([[2], [3, 2]], sampler)
        assert found.ids == (2,) and {hypothesis.ids for hypothesis in others} <= {(2,)}
        assert found.log_prob == pytest.approx(float(ops.convert_to_numpy(model.score([[2]], [[2]]))[0]), abs=1e-5)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("sampler", [GreedySampler(), BeamSampler(4, num_best=3), RandomSampler(3)], ids=str)
def test_a_memory_with_a_time_axis_and_a_state_of_integers_are_searched(sampler):
    models, sources = [window_model(), window_model(seed=1)], random_sources(6, 6)
    for source, hypotheses in zip(sources, Generator(models[0]).generate(sources, sampler), strict=True):
        expected = [expected_log_probs(models[0], source, each.ids).sum() for each in hypotheses]
        np.testing.assert_allclose([each.log_prob for each in hypotheses], expected, atol=1e-4)
    twice = Generator([models[0], models[0]]).generate(sources, sampler)
    once = Generator(models[0]).generate(sources, sampler)
    assert [[each.ids for each in some] for some in twice] == [[each.ids for each in some] for some in once]
    assert Generator(models).generate(sources, sampler) != once


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("average", ["arithmetic", "geometric"])
def test_an_ensemble_averages_the_probabilities_of_each_word(average):
    models, weights = [toy(seed=seed)[0] for seed in (1, 2)], [1, 3]
    every, source = sequences(models[0], 3), [4, 5, 2]
    tables = []
    for model in models:
        (state, memory), table = model.start(ops.array([source])), {}
        log_probs, after = model.decoder.next_log_probs(ops.array([0]), state, memory)
        table[()] = np.exp(ops.convert_to_numpy(log_probs)[0].astype(float))
        for first in (1, 3, 4, 5):
            log_probs, _ = model.decoder.next_log_probs(ops.array([first]), after, memory)
            table[(first,)] = np.exp(ops.convert_to_numpy(log_probs)[0].astype(float))
        tables.append(table)

    def averaged(prefix):
        one, two = (table[prefix] for table in tables)
        if average == "arithmetic":
            return 0.25 * one + 0.75 * two
        product = one**0.25 * two**0.75
        return product / product.sum()

    def log_prob(ids):
        return sum(np.log(averaged(ids[:i])[ids[i]]) for i in range(len(ids)))

    ensemble = Generator(models, weights, average)
    [found] = ensemble.generate([source], BeamSampler(90, num_best=90))
    scores = {hypothesis.ids: hypothesis.log_prob for hypothesis in found}
    for ids in every[:5]:  # those of at most one word
        assert scores[ids] == pytest.approx(log_prob(ids), abs=1e-4)


@pytest.mark.usefixtures("uncompiled")
def test_an_ensemble_of_equal_models_generates_what_the_model_does():
    model, _ = toy(target_words=12, seed=3)
    sources = random_sources(6, 6)
    once = Generator(model).generate(sources, BeamSampler(4))
    for average in ("arithmetic", "geometric"):
        twice = Generator([model, model], [2, 5], average).generate(sources, BeamSampler(4))
        for [one], [two] in zip(once, twice, strict=True):
            assert one.ids == two.ids and one.log_prob == pytest.approx(two.log_prob, abs=1e-5)


def test_wrong_arguments_are_refused():
    model, _ = toy()
    other = RNNEncoderDecoder(6, 4, **SIZES)
    with pytest.raises(ValueError, match=r"\[\(6, 3\), \(6, 4\)\], expected the same numbers in all models"):
        Ensemble([model, other])
    with pytest.raises(ValueError, match="no models"):
        Ensemble([])
    with pytest.raises(ValueError, match=r"weights \[1\], expected 2 positive"):
        Ensemble([model, model], [1])
    with pytest.raises(ValueError, match="average='mean'"):
        Ensemble([model], average="mean")
    with pytest.raises(ValueError, match=r"source \[3\], expected ids closed"):
        Generator(model).generate([[3]])
    with pytest.raises(ValueError, match="sampler='beams', expected a .* or one of beam, greedy, sample"):
        Generator(model).generate([[3, 2]], "beams")
    for weight in (float("nan"), float("inf"), 0.0):
        with pytest.raises(ValueError, match="expected 2 positive"):
            Ensemble([model, model], [1, weight])
    for source, message in (([3, 0, 2], "closed by one end"), ([9, 2], "ids from 1 to 8"), ([-1, 2], "from 1 to 8")):
        with pytest.raises(ValueError, match=message):
            Generator(model).generate([source])
    for texts in (["le chat"], [["le", "chat"]], [[3.5, 2]]):
        with pytest.raises(
            ValueError, match="found the source .*, expected a sequence of ids; TextGenerator takes texts"
        ):
            Generator(model).generate(texts)
    with pytest.raises(ValueError, match="found the source 3, expected a sequence"):
        Generator(model).generate(np.array([3, 2]))
    for name, values in {"max_length": (-1, "2", 2.5, True), "max_length_factor": (np.inf, np.nan, -1.0, "2")}.items():
        for value in values:
            with pytest.raises(ValueError, match=f"found {name}={re.escape(repr(value))}, expected a .*, 0 or more"):
                Generator(model).generate([[3, 2]], **{name: value})
    with pytest.raises(ValueError, match="found None in place of the sources, expected a list of sequences of ids"):
        Generator(model).generate(None)


@pytest.mark.parametrize("sampler", ["greedy", BeamSampler(3), RandomSampler(2)])
def test_a_model_that_gives_nan_is_an_error(sampler):
    model, _ = toy()
    model.decoder.readout.output_bias.assign(np.full(6, np.nan))
    with pytest.raises(ValueError, match=r"NaN for the source \[3, 2\], expected numbers"):
        Generator(model).generate([[3, 2]], sampler)


def test_a_long_source_makes_no_batch_of_short_ones_wide(monkeypatch):
    model, _ = toy(target_words=12)
    shapes, sources = [], random_sources(700, 20) + [[3] * 3000 + [2]]
    pad_batch = search_batches.pad

    def noted(sequences, width):
        shapes.append((len(sequences), width))
        return pad_batch(sequences, width)

    monkeypatch.setattr(search_batches, "pad", noted)
    found = [best.ids for [best] in Generator(model).generate(sources, max_length=3)]
    assert all(rows * width <= search_batches.MAX_TOKENS for rows, width in shapes) and sorted(shapes)[0] == (1, 3072)
    assert found[:3] == [best.ids for [best] in Generator(model).generate(sources[:3], max_length=3)]
