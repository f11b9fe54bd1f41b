"""Samples against the model's probabilities."""

import collections

import numpy as np
import pytest
from keras import ops
from toy_search import sequences, toy

from keras_encdec.data import pad
from keras_encdec.decoding import Generator, RandomSampler
from keras_encdec.decoding.random_sampler import BLOCK, drawn
from keras_encdec.scoring import Scorer

SOURCE = [4, 5, 2]
NUMBER = 4000
# Expected samples of two sources.
SAMPLES = [[(19, 30, 4, 4, 2), (27, 4, 4, 4, 2)], [(19, 30, 4, 4, 2), (30, 4, 4, 4, 2)]]


def first_words(model, sampler):
    """How often each word came first, and log p of each: dict and array over the vocabulary."""
    [samples] = Generator(model).generate([SOURCE], sampler, max_length=1)
    counts = collections.Counter(sample.ids[0] for sample in samples)
    state, memory = model.start(ops.array([SOURCE]))
    log_probs, _ = model.decoder.next_log_probs(ops.array([0]), state, memory)
    return counts, ops.convert_to_numpy(log_probs)[0].astype(float)


def chi_squared(counts, probabilities):
    """The statistic, and the bound that it exceeds once in ten thousand times (Wilson and Hilferty)."""
    expected = NUMBER * probabilities
    assert set(counts) <= set(np.flatnonzero(expected))
    frequent = expected >= 5
    observed = np.array([counts[i] for i in range(len(expected))])
    pooled = [(observed[~frequent].sum(), expected[~frequent].sum())] if expected[~frequent].sum() >= 5 else []
    cells = [*zip(observed[frequent], expected[frequent], strict=True), *pooled]
    freedom = len(cells) - 1
    assert freedom >= 1
    statistic = sum((o - e) ** 2 / e for o, e in cells)
    return statistic, freedom * (1 - 2 / (9 * freedom) + 3.72 * np.sqrt(2 / (9 * freedom))) ** 3


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "temperature, top_k, top_p", [(1, None, 1), (0.6, None, 1), (1, 4, 1), (1, None, 0.7), (2, 9, 0.9)]
)
def test_frequencies_follow_the_probabilities(temperature, top_k, top_p):
    model, _ = toy(target_words=300, seed=5)
    sampler = RandomSampler(NUMBER, temperature, top_k, top_p, seed=1)
    counts, log_probs = first_words(model, sampler)
    probabilities = np.exp(log_probs / temperature)
    probabilities[0] = 0
    if top_k:
        probabilities[probabilities < np.sort(probabilities)[-top_k]] = 0
    probabilities /= probabilities.sum()
    if top_p < 1:
        order = np.argsort(-probabilities)
        enough = np.searchsorted(np.cumsum(probabilities[order]), top_p) + 1
        probabilities[order[enough:]] = 0
        probabilities /= probabilities.sum()
    statistic, bound = chi_squared(counts, probabilities)
    assert statistic < bound


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("temperature", [1.0, 1e8])
def test_of_equally_probable_words_no_more_than_top_k_are_drawn(temperature):
    """Equal values are frequent in bfloat16; at a high temperature, all probabilities become equal."""
    log_probs = np.log(np.array([[0.1, 0.1, 0.1, 0.3, 0.3, 0.1]], np.float32).repeat(8, axis=0))
    for top_k, possible in ((1, {3, 4}), (2, {3, 4}), (3, set(range(6)))):
        sampler = RandomSampler(8, temperature, top_k)
        search = {"temperature": ops.ones((1,)) * temperature}
        draws = np.linspace(0, 0.99, 8, dtype=np.float32)
        found = set(ops.convert_to_numpy(sampler.choose(ops.array(log_probs), search, ops.array(draws))).tolist())
        assert len(found) == top_k and found <= possible


def test_whole_sequences_are_as_frequent_as_they_are_probable():
    model, weights = toy(target_words=3)
    weights["readout.b_G"][2] = 2.0  # most end within the limit
    model.decoder.readout.output_bias.assign(weights["readout.b_G"])
    [samples] = Generator(model).generate([SOURCE], RandomSampler(NUMBER, seed=2))
    every = sequences(model, 4)
    probabilities = np.exp(ops.convert_to_numpy(model.score(pad([SOURCE] * len(every)), pad(every))).astype(float))
    index = {ids: number for number, ids in enumerate(every)}
    counts = collections.Counter(index.get(sample.ids, len(every)) for sample in samples)
    statistic, bound = chi_squared(counts, np.append(probabilities, 1 - probabilities.sum()))
    assert statistic < bound


@pytest.mark.usefixtures("uncompiled")
def test_samples_have_the_models_score_and_end_within_the_limit():
    model, _ = toy(target_words=30, seed=6)
    sources = [[3, 2], [4] * 20 + [2]]
    found = Generator(model).generate(sources, RandomSampler(40, temperature=3.0), max_length_factor=0.5)
    pairs = [(source, sample.ids) for source, some in zip(sources, found, strict=True) for sample in some]
    np.testing.assert_allclose(
        [sample.log_prob for some in found for sample in some], Scorer(model).score(pairs), atol=1e-4
    )
    assert all(ids[-1] == 2 and len(ids) <= 11 for _, ids in pairs) and max(len(ids) for _, ids in pairs) == 11


@pytest.mark.usefixtures("uncompiled")
def test_samples_depend_on_the_seed_and_the_sources_number_alone():
    model, _ = toy(target_words=30, seed=7)
    sources = [[3, 2], [4, 5, 6, 7, 3, 4, 5, 6, 7, 8, 2], [3, 2]]
    generator, sampler = Generator(model), RandomSampler(8, seed=3)
    together = generator.generate(sources, sampler, max_length=4)
    assert together == generator.generate(sources, sampler, max_length=4)
    assert together[0] != together[2], "equal sources are drawn for separately"
    [alone] = generator.generate(sources[2:], sampler, first=2, max_length=4)
    assert [hypothesis.ids for hypothesis in alone] == [hypothesis.ids for hypothesis in together[2]]
    assert generator.generate(sources, RandomSampler(8, seed=4), max_length=4) != together


def test_samples_are_the_same_on_every_backend():
    model, _ = toy(target_words=30, seed=7)
    sampler = RandomSampler(2, top_k=9, top_p=0.9, seed=3)
    found = Generator(model).generate([[3, 2], [4, 5, 6, 2]], sampler, max_length=4)
    assert [[sample.ids for sample in some] for some in found] == SAMPLES


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("temperature", [1e-300, 1e-40, 1e-7])
def test_samples_of_the_lowest_temperature_are_those_of_greedy_search(temperature):
    model, _ = toy(target_words=30, seed=7)
    [[greedy]] = Generator(model).generate([SOURCE])
    [samples] = Generator(model).generate([SOURCE], RandomSampler(5, temperature=temperature))
    assert {sample.ids for sample in samples} == {greedy.ids}


@pytest.mark.usefixtures("uncompiled")
def test_at_the_highest_temperature_all_words_are_equally_frequent():
    model, _ = toy(target_words=30, seed=7)
    [samples] = Generator(model).generate([SOURCE], RandomSampler(NUMBER, temperature=1e30), max_length=1)
    counts = collections.Counter(sample.ids[0] for sample in samples)
    probabilities = np.append([0.0], np.full(32, 1 / 32))
    statistic, bound = chi_squared(counts, probabilities)
    assert statistic < bound


def test_no_word_of_probability_zero_is_drawn_wherever_the_draw_falls():
    rows = np.zeros((6, 2 * BLOCK + 5), np.float32)
    rows[:, [3, BLOCK - 1, BLOCK, 2 * BLOCK + 1]] = [0.25, 0.25, 0.25, 0.25]
    draws = np.array([0.0, 0.2499, 0.25, 0.5, 0.999, np.float32(1 - 2**-24)], np.float32)
    found = ops.convert_to_numpy(drawn(ops.array(rows), ops.array(draws)))
    assert found.tolist() == [3, 3, BLOCK - 1, BLOCK, 2 * BLOCK + 1, 2 * BLOCK + 1]


def test_rounding_leads_to_no_word_after_the_last_that_is_possible():
    rows = np.random.default_rng(0).random((400, 100)).astype(np.float32)
    rows[:, 60:] = 0
    assert ops.convert_to_numpy(drawn(ops.array(rows), ops.ones(400))).max() < 60


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_samples": 0},
        {"temperature": 0.0},
        {"temperature": float("inf")},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"seed": -1},
    ],
)
def test_numbers_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=f"found {next(iter(arguments))}="):
        RandomSampler(**arguments)
