"""Decoding with a model that keeps the decoder contract and is unlike any in the package."""

import itertools

import numpy as np
import pytest
from layer_checks import numpy
from toy_contract import next_word_log_probs, window_model

from keras_encdec.decoding import BeamSampler, Generator, GreedySampler, RandomSampler

END, LONGEST = 2, 3
SOURCES = [[3, 4, 5, 2], [6, 2], [7, 3, 3, 8, 4, 5, 6, 7, 8, 2], [2]]
SEQUENCES = [(*words, END) for length in range(LONGEST + 1) for words in itertools.product((1, 3, 4), repeat=length)]


@pytest.fixture(scope="module")
def models():
    """Two models of few words, which never predict padding."""
    models = [window_model(target_words=2, seed=seed) for seed in (0, 1)]
    for model in models:
        bias = numpy(model.decoder.output_matrix.bias).copy()
        bias[0] = -40
        model.decoder.output_matrix.bias.assign(bias)
    return models


@pytest.fixture(scope="module")
def expected(models):
    """For each model, the function from a source and a prefix to ln p of the next words."""
    return [next_word_log_probs(model) for model in models]


def total(log_probs, source, ids):
    """ln p of a sequence."""
    return sum(log_probs(source, ids[:length])[word] for length, word in enumerate(ids))


def ranked(log_probs, source):
    """All sequences, the most probable first, with their ln p."""
    return sorted(((total(log_probs, source, ids), ids) for ids in SEQUENCES), reverse=True)


def test_a_wide_beam_finds_the_best_of_all_sequences(models, expected):
    found = Generator(models[0]).generate(SOURCES, BeamSampler(40, num_best=5), max_length=LONGEST)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        best = ranked(expected[0], source)[:5]
        assert [hypothesis.ids for hypothesis in hypotheses] == [ids for _, ids in best]
        np.testing.assert_allclose(
            [hypothesis.log_prob for hypothesis in hypotheses], [log_prob for log_prob, _ in best], atol=1e-4
        )


def test_greedy_takes_the_most_probable_word_each_time(models, expected):
    found = Generator(models[0]).generate(SOURCES, GreedySampler(), max_length=LONGEST)
    for source, (best,) in zip(SOURCES, found, strict=True):
        prefix = []
        while len(prefix) < LONGEST and END not in prefix:
            log_probs = expected[0](source, prefix)
            prefix.append(max((1, END, 3, 4), key=lambda word, log_probs=log_probs: log_probs[word]))
        assert best.ids == tuple(prefix if END in prefix else [*prefix, END])


def test_samples_have_the_probabilities_of_the_model(models, expected):
    found = Generator(models[0]).generate(SOURCES, RandomSampler(20, seed=3), max_length=LONGEST)
    for source, samples in zip(SOURCES, found, strict=True):
        assert len(samples) == 20
        for sample in samples:
            assert sample.log_prob == pytest.approx(total(expected[0], source, sample.ids), abs=1e-4)


@pytest.mark.parametrize("average", ["arithmetic", "geometric"])
def test_an_ensemble_averages_the_probabilities_of_each_word(models, expected, average):
    found = Generator(models, [3, 1], average).generate(SOURCES, BeamSampler(40), max_length=LONGEST)

    def averaged(source, prefix):
        first, second = (log_probs(source, prefix) for log_probs in expected)
        if average == "arithmetic":
            return np.log(0.75 * np.exp(first) + 0.25 * np.exp(second))
        means = 0.75 * first + 0.25 * second
        return means - np.log(np.exp(means).sum())

    for source, (best,) in zip(SOURCES, found, strict=True):
        log_prob, ids = ranked(averaged, source)[0]
        assert best.ids == ids and best.log_prob == pytest.approx(log_prob, abs=1e-4)
