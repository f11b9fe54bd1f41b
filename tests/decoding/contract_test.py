"""Decoding with a model that keeps the decoder contract and is like none in the package."""

import itertools

import numpy as np
import pytest
from layer_checks import numpy
from toy_contract import expected_log_probs, window_model

from keras_encdec.decoding import BeamSampler, Generator, GreedySampler, RandomSampler

END, LONGEST = 2, 3
SOURCES = [[3, 4, 5, 2], [6, 2], [7, 3, 3, 8, 4, 5, 6, 7, 8, 2], [2]]
SEQUENCES = [(*words, END) for length in range(LONGEST + 1) for words in itertools.product((1, 3, 4), repeat=length)]


@pytest.fixture(scope="module")
def models():
    """Two models of few words, which do not take padding for a word."""
    models = [window_model(target_words=2, seed=seed) for seed in (0, 1)]
    for model in models:
        bias = numpy(model.decoder.output_matrix.bias).copy()
        bias[0] = -40
        model.decoder.output_matrix.bias.assign(bias)
    return models


def ranked(log_prob):
    """All sequences, the most probable first, with their ln p."""
    return sorted(((log_prob(ids), ids) for ids in SEQUENCES), reverse=True)


def test_a_wide_beam_finds_the_best_of_all_sequences(models):
    found = Generator(models[0]).generate(SOURCES, BeamSampler(40, num_best=5), max_length=LONGEST)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        best = ranked(lambda ids, source=source: expected_log_probs(models[0], source, ids).sum())[:5]
        assert [one.ids for one in hypotheses] == [ids for _, ids in best]
        np.testing.assert_allclose([one.log_prob for one in hypotheses], [total for total, _ in best], atol=1e-4)


def test_greedy_takes_the_most_probable_word_each_time(models):
    found = Generator(models[0]).generate(SOURCES, GreedySampler(), max_length=LONGEST)
    for source, (best,) in zip(SOURCES, found, strict=True):
        prefix = []
        while len(prefix) < LONGEST and END not in prefix:
            choices = {w: expected_log_probs(models[0], source, [*prefix, w])[-1] for w in (1, END, 3, 4)}
            prefix.append(max(choices, key=choices.get))
        assert best.ids == tuple(prefix if END in prefix else [*prefix, END])


def test_samples_have_the_probabilities_of_the_model(models):
    found = Generator(models[0]).generate(SOURCES, RandomSampler(20, seed=3), max_length=LONGEST)
    for source, samples in zip(SOURCES, found, strict=True):
        assert len(samples) == 20
        for one in samples:
            assert one.log_prob == pytest.approx(expected_log_probs(models[0], source, one.ids).sum(), abs=1e-4)


@pytest.mark.parametrize("average", ["arithmetic", "geometric"])
def test_an_ensemble_averages_the_probabilities_of_each_word(models, average):
    found = Generator(models, [3, 1], average).generate(SOURCES, BeamSampler(40), max_length=LONGEST)

    def averaged(source, ids):
        total = 0.0
        for length, word in enumerate(ids):
            words = {w: [expected_log_probs(m, source, [*ids[:length], w])[-1] for m in models] for w in range(5)}
            if average == "arithmetic":
                total += np.log(0.75 * np.exp(words[word][0]) + 0.25 * np.exp(words[word][1]))
            else:
                means = {w: 0.75 * first + 0.25 * second for w, (first, second) in words.items()}
                total += means[word] - np.log(np.exp(list(means.values())).sum())
        return total

    for source, (best,) in zip(SOURCES[:2], found, strict=False):
        total, ids = ranked(lambda ids, source=source: averaged(source, ids))[0]
        assert best.ids == ids and best.log_prob == pytest.approx(total, abs=1e-4)
