"""What a search does with attention: it is returned, averaged over models, and counts for coverage."""

import numpy as np
import pytest
import recurrent_oracle
from recurrent_toys import nested_weights, toy

from keras_encdec.decoding import BeamSampler, Generator

SOURCES = [[4, 1, 6, 2], [2], [3, 3, 7, 5, 4, 2], [5, 2], [6, 6, 2]]


@pytest.fixture(scope="module")
def model():
    return toy(layers=1, attention="local_m", attention_window=1, input_feeding=True)


@pytest.fixture(scope="module")
def generator(model):
    return Generator(model)


def oracle(model, source, hypothesis):
    """ln p and the attention of a hypothesis, by the equations."""
    log_probs, attention = recurrent_oracle.decoded(
        nested_weights(model), source, list(hypothesis.ids), model.config.to_dict()
    )
    return log_probs.sum(), attention


@pytest.mark.parametrize("sampler", ["greedy", BeamSampler(4, num_best=3), "sample"], ids=str)
def test_the_attention_of_each_hypothesis_is_returned(model, generator, sampler):
    for source, hypotheses in zip(SOURCES, generator.generate(SOURCES, sampler, with_attention=True), strict=True):
        for hypothesis in hypotheses:
            log_prob, attention = oracle(model, source, hypothesis)
            np.testing.assert_allclose(hypothesis.attention, attention, atol=1e-5)
            assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)


def test_hypotheses_are_ranked_by_coverage_too(model, generator):
    penalized = BeamSampler(6, num_best=6, length_penalty=0.6, coverage_penalty=5.0)
    without = generator.generate(SOURCES, penalized.replace(coverage_penalty=0.0))
    reordered = 0
    for source, hypotheses, before in zip(SOURCES, generator.generate(SOURCES, penalized), without, strict=True):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            log_prob, attention = oracle(model, source, hypothesis)
            coverage = np.log(np.clip(attention.sum(axis=0), 1e-6, 1)).sum()
            expected = log_prob / ((5 + len(hypothesis.ids)) / 6) ** 0.6 + 5.0 * coverage
            assert hypothesis.score == pytest.approx(expected, abs=2e-3)
        reordered += hypotheses[0].ids != before[0].ids
    assert reordered, "a penalty that changes nothing shows nothing"


def test_an_ensemble_averages_the_attention_of_its_models_with_attention(model):
    other = toy(layers=1, attention="global", attention_score="dot", input_feeding=False)
    [[found]] = Generator([model, other, toy(layers=1)], [3, 1, 4]).generate(SOURCES[2:3], with_attention=True)
    expected = 0.75 * oracle(model, SOURCES[2], found)[1] + 0.25 * oracle(other, SOURCES[2], found)[1]
    np.testing.assert_allclose(found.attention, expected, atol=1e-5)


def test_requesting_attention_of_a_model_without_it_is_an_error():
    generator = Generator(toy(layers=1))
    with pytest.raises(ValueError, match="found with_attention with a model that has no attention"):
        generator.generate(SOURCES, with_attention=True)
    with pytest.raises(ValueError, match="found coverage_penalty with a model that has no attention"):
        generator.generate(SOURCES, BeamSampler(2, coverage_penalty=0.1))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["mixed_bfloat16"])
def test_a_search_in_low_precision_uses_the_current_weights(policy):
    model = toy(layers=1, attention="local_p", condition="context", cell="gru", dtype=policy)
    generator = Generator(model)
    for factor in (1, 0.5):
        for variable in model.trainable_variables:
            variable.assign(variable * factor)
        [[found]] = generator.generate(SOURCES[2:3], with_attention=True)
        assert found.log_prob == pytest.approx(float(model.score(SOURCES[2:3], [found.ids])[0]), rel=0.02)
        assert found.attention.shape == (len(found.ids), len(SOURCES[2]))
