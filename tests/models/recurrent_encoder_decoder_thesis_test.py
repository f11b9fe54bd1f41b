"""The recurrent models against the algorithms of Luong's thesis, written out by hand."""

import keras
import numpy as np
import pytest
import thesis_oracle
from gradients import assert_finite_differences, double_precision, gradients_by
from recurrent_toys import PAIRS, SOURCE, TARGET, plain_weights, stirred, thesis_weights, toy, toy_language_model

from keras_encdec.decoding import Generator

DOUBLE = 1e-9
TARGETS = [target for _, target in PAIRS]

# Functions that return the model, its weights by the thesis's names, log p of each token, and the gradients.
ALGORITHMS = {
    "1": (
        lambda **kw: toy_language_model(cell="rnn", **{**kw, "layers": 1}),
        plain_weights,
        lambda w: [thesis_oracle.rnn_language_model(w, y)[0] for y in TARGETS],
        lambda w: [thesis_oracle.rnn_bptt(w, y) for y in TARGETS],
    ),
    "2": (
        lambda **kw: toy_language_model(**{**kw, "layers": 1}),
        thesis_weights,
        lambda w: [thesis_oracle.lstm_language_model(w, y) for y in TARGETS],
        lambda w: [thesis_oracle.lstm_bptt(w, y) for y in TARGETS],
    ),
    "2, stacked": (
        lambda **kw: toy_language_model(**{**kw, "layers": 3}),
        thesis_weights,
        lambda w: [thesis_oracle.lstm_language_model(w, y) for y in TARGETS],
        lambda w: [thesis_oracle.lstm_bptt(w, y) for y in TARGETS],
    ),
    "3 and 4": (
        toy,
        thesis_weights,
        lambda w: [thesis_oracle.encoder_decoder(w, x, y) for x, y in PAIRS],
        lambda w: [thesis_oracle.encoder_decoder_grad(w, x, y) for x, y in PAIRS],
    ),
}


def summed(gradients):
    return {name: sum(gradient[name] for gradient in gradients) for name in gradients[0]}


def scores(model):
    arguments = (SOURCE, TARGET) if model.has_source else (TARGET,)
    return [keras.ops.convert_to_numpy(of(*arguments)) for of in (model.token_log_probs, model.score)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype, tolerance", [("float64", DOUBLE), ("float32", 1e-4)])
def test_log_probabilities_are_the_algorithms(algorithm, dtype, tolerance):
    build, weights, log_probs, _ = ALGORITHMS[algorithm]
    with double_precision():
        model = build(dtype=dtype)
        tokens, sums = scores(model)
        expected = log_probs(weights(model))
    assert tokens.dtype == sums.dtype == dtype
    for row, total, of in zip(tokens, sums, expected, strict=True):
        np.testing.assert_allclose(row[: len(of)], of, atol=tolerance)
        assert not row[len(of) :].any(), "padding counts nothing"
        assert abs(total - of.sum()) < tolerance


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_gradients_are_the_algorithms(algorithm):
    build, weights, _, gradients = ALGORITHMS[algorithm]
    with double_precision():
        model = build(dtype="float64")
        expected = summed(gradients(weights(model)))
        # A language model takes no source.
        by_name = gradients_by(weights, model, SOURCE, TARGET)
    assert by_name.keys() == expected.keys()
    for name, gradient in expected.items():
        np.testing.assert_allclose(by_name[name], gradient, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_algorithms_gradients_are_finite_differences(algorithm):
    build, weights, log_probs, gradients = ALGORITHMS[algorithm]
    with double_precision():
        w = weights(build(dtype="float64"))
    found = summed(gradients(w))
    w = {name: w[name] for name in found}
    assert_finite_differences(found, lambda moved: sum(of.sum() for of in log_probs(moved)), w, tolerance=1e-7)


def test_greedy_decoding_is_algorithm_5():
    model = stirred(toy(), scale=2.0, seed=2)
    bias = thesis_weights(model)["b_y"]
    bias[0] = -40  # padding is never predicted
    model.decoder.output_matrix.bias.assign(bias)
    weights = {name: array.astype("float64") for name, array in thesis_weights(model).items()}
    random = np.random.default_rng(0)
    sources = [[*random.integers(3, 9, random.integers(1, 12)).tolist(), 2] for _ in range(12)]
    found = [best.ids for [best] in Generator(model).generate(sources)]
    longest = [max(10, -(-3 * (len(source) - 1) // 2)) for source in sources]
    expected = [tuple(thesis_oracle.greedy(weights, x, n)) for x, n in zip(sources, longest, strict=True)]
    assert found == expected
    assert len(set(map(len, expected))) > 4, "the sources are translated into words, and differ"
