"""The model against the float64 NumPy oracle, forward and gradient."""

import itertools

import keras
import numpy as np
import oracle
import pytest
from gradients import assert_finite_differences, double_precision, gradients_by, in_one_program
from layer_checks import numpy
from recurrent_toys import PAIRS, SOURCE, TARGET, padded

from keras_encdec.models import RNNEncoderDecoder, from_symbols, to_symbols

SIZES = {"embedding_dim": 3, "units": 5, "maxout_units": 4, "output_rank": 2}


def model_and_weights(reset_after, dtype):
    model = RNNEncoderDecoder(6, 7, **SIZES, reset_after=reset_after, dtype=dtype)
    weights = oracle.random_weights(to_symbols(model))
    return from_symbols(model, weights), weights


DOUBLE = 1e-9


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("dtype, tolerance", [("float64", DOUBLE), ("float32", 1e-4)])
def test_log_probabilities_are_the_oracles(reset_after, dtype, tolerance):
    with double_precision():
        model, weights = model_and_weights(reset_after, dtype)
        tokens = keras.ops.convert_to_numpy(model.token_log_probs(SOURCE, TARGET))
        scores = keras.ops.convert_to_numpy(model.score(SOURCE, TARGET))
        summaries = keras.ops.convert_to_numpy(model.encode(SOURCE)["summary"])
    assert tokens.dtype == scores.dtype == dtype
    for (source, target), row, score, c in zip(PAIRS, tokens, scores, summaries, strict=True):
        table = oracle.token_log_probs(weights, source, target, reset_after)
        np.testing.assert_allclose(row[: len(target)], table[range(len(target)), target], atol=tolerance)
        assert not row[len(target) :].any(), "padding counts nothing"
        assert abs(score - oracle.score(weights, source, target, reset_after)) < tolerance
        np.testing.assert_allclose(c, oracle.summary(weights, source, reset_after), atol=tolerance)


@pytest.mark.parametrize("reset_after", [False, True])
def test_gradients_are_the_oracles_finite_differences(reset_after):
    with double_precision():
        model, weights = model_and_weights(reset_after, "float64")
        gradients = gradients_by(to_symbols, model, SOURCE, TARGET)
    for side in ("source.E", "target.E"):
        assert not gradients[side][0].any(), "row 0 is not trained"

    def total(arrays):
        return sum(oracle.score(arrays, s, t, reset_after) for s, t in PAIRS)

    assert_finite_differences(gradients, total, weights, first_row=lambda name: name.endswith(".E"))


def test_probabilities_of_all_two_token_continuations_sum_to_one():
    model, _ = model_and_weights(False, "float32")
    ids = [i for i in range(1, 10)]  # without id 0, padding, to which the model gives a probability, too
    source = padded([[4, 1, 6, 2]] * len(ids) ** 2)
    targets = np.array(list(itertools.product(ids, ids)), "int32")
    tokens = numpy(model.token_log_probs(source, targets))
    encoded, decoder = model.encode(source[:1]), in_one_program(model.decoder)
    logits = decoder(np.zeros((1, 1), "int32"), encoded)
    first = numpy(keras.ops.softmax(logits[0, 0]))
    np.testing.assert_allclose(np.exp(tokens[:: len(ids), 0]), first[1:], atol=1e-6)
    # The rest is the probability of id 0 as the first or the second token.
    previous = np.array([[0, i] for i in ids], "int32")
    repeated = {"summary": keras.ops.repeat(encoded["summary"], len(ids), 0)}
    second = numpy(keras.ops.softmax(decoder(previous, repeated), -1))[:, 1]
    total = np.exp(tokens.sum(-1)).sum() + first[0] + (first[1:] * second[:, 0]).sum()
    assert abs(total - 1) < 1e-5


def test_a_score_is_the_same_alone_in_a_batch_and_under_more_padding():
    model, _ = model_and_weights(False, "float32")
    together = numpy(model.score(SOURCE, TARGET))
    wider = numpy(model.score(padded(SOURCE.tolist(), 25), padded(TARGET.tolist(), 30)))
    np.testing.assert_allclose(wider, together, atol=1e-5)
    for i, (source, target) in list(enumerate(PAIRS))[1:3]:
        assert abs(numpy(model.score([source], [target]))[0] - together[i]) < 1e-5
