"""Tests of scoring many pairs: the scores are those of the model itself, however the pairs are given."""

import re
import reprlib

import keras
import numpy as np
import pytest
from gradients import double_precision
from layer_checks import numpy

from keras_encdec.backend.devices import on_cpu
from keras_encdec.configuration import ConfigurationError
from keras_encdec.data import pad
from keras_encdec.models import FeedForwardLanguageModel, RNNEncoderDecoder
from keras_encdec.models.translation_model import ModelInDtype
from keras_encdec.scoring import Scorer

WORDS = 23  # with ids up to 25


def random_model(seed=0, **kwargs):
    """A small model whose weights are large enough for scores to differ much."""
    keras.utils.set_random_seed(seed)
    sizes = {"embedding_dim": 6, "units": 16, "maxout_units": 8, "output_rank": 5, **kwargs}
    model = RNNEncoderDecoder(WORDS, WORDS, **sizes)
    random = np.random.default_rng(seed)
    model.set_weights([random.normal(0, 0.4, weight.shape) for weight in model.weights])
    return model


def random_sequence(random, longest):
    """Words, the unknown one among them, closed by the end of sequence; sometimes without words."""
    return [*random.choice([1, *range(3, 3 + WORDS)], random.integers(0, longest + 1)).tolist(), 2]


def random_pairs(number, longest, seed=0):
    random = np.random.default_rng(seed)
    return [(random_sequence(random, longest), random_sequence(random, longest)) for _ in range(number)]


def shared_pairs(number):
    """Pairs as in a phrase table: few sources, few words, sides that begin alike, some twice."""
    random = np.random.default_rng(1)

    def phrase():
        return (*random.integers(3, 6, random.integers(0, 4)).tolist(), 2)

    return [(phrase(), phrase()) for _ in range(number)]


def model_scores(model, pairs):
    return numpy(model.score(pad([source for source, _ in pairs]), pad([target for _, target in pairs])))


# tests/layers and tests/models test both cells with every backend.
CELLS = ["reset_before", "reset_after"] if keras.backend.backend() == "tensorflow" else ["reset_before"]


@pytest.fixture(scope="module", params=CELLS)
def model(request):
    return random_model(reset_after=request.param == "reset_after")


@pytest.fixture(scope="module")
def scorer(model):
    return Scorer(model)


@pytest.fixture(scope="module")
def pairs():
    long = np.random.default_rng(5).integers(3, 3 + WORDS, 60).tolist()
    edges = [([2], [2]), ([1, 2], [2]), ([2], [5, 2]), ([*long, 2], [*long[::-1], 2])]
    edges += [([*long, 2], [2]), ([2], [*long, 2])]
    return edges + random_pairs(60, 60) + random_pairs(200, 7) + shared_pairs(300)


def test_scores_equal_the_models(model, scorer, pairs):
    expected = model_scores(model, pairs)
    assert expected.std() > 5, "a test of scores that hardly differ would show nothing"
    scores = scorer.score(pairs)
    assert scores.dtype == np.float64 and scores.shape == (len(pairs),)
    np.testing.assert_allclose(scores, expected, rtol=2e-6, atol=1e-4)


def test_token_scores_equal_the_models_and_add_up(model, scorer, pairs):
    tokens = scorer.token_scores(pairs)
    expected = numpy(model.token_log_probs(pad([source for source, _ in pairs]), pad([target for _, target in pairs])))
    for row, wanted, (_, target) in zip(tokens, expected, pairs, strict=True):
        assert row.shape == (len(target),) and row.dtype == np.float64
        np.testing.assert_allclose(row, wanted[: len(target)], atol=1e-4)
    np.testing.assert_allclose([row.sum() for row in tokens], scorer.score(pairs), atol=1e-9)


def test_a_score_does_not_depend_on_the_other_pairs(scorer, pairs):
    together = scorer.score(pairs)
    order = np.random.default_rng(2).permutation(len(pairs))
    np.testing.assert_allclose(scorer.score([pairs[i] for i in order]), together[order], atol=1e-4)
    alone = np.concatenate([scorer.score([pair]) for pair in pairs[:12]])
    np.testing.assert_allclose(alone, together[:12], atol=1e-4)
    halves = [scorer.score(pairs[:100]), scorer.score(pairs[100:])]
    np.testing.assert_allclose(np.concatenate(halves), together, atol=1e-4)


def test_equal_pairs_have_equal_scores(scorer, pairs):
    twice = scorer.score([*pairs[:50], *pairs[:50]])
    np.testing.assert_array_equal(twice[:50], twice[50:])


def test_more_pairs_than_fit_a_batch_are_scored(model, scorer):
    many = random_pairs(9000, 4, seed=3)
    np.testing.assert_allclose(scorer.score(many), model_scores(model, many), atol=1e-4)


def test_pairs_may_be_of_any_kind_of_sequence(scorer):
    expected = scorer.score([([5, 6, 2], [7, 2])])
    for kind in (tuple, np.array, lambda ids: np.array(ids, "int32")):
        np.testing.assert_array_equal(scorer.score([(kind([5, 6, 2]), kind([7, 2]))]), expected)


def test_no_pairs_give_no_scores(scorer):
    assert scorer.score([]).shape == (0,)
    assert scorer.token_scores([]) == []


def test_a_scorer_uses_the_weights_of_its_own_model(model, pairs):
    other = random_model(seed=7)
    np.testing.assert_allclose(Scorer(other).score(pairs[:50]), model_scores(other, pairs[:50]), rtol=2e-6, atol=1e-4)


def test_logits_whose_sum_overflows_float32_are_scored():
    huge = random_model()
    huge.decoder.readout.output_bias.assign(np.linspace(-300, 300, WORDS + 3))
    some = random_pairs(40, 6)
    scores = Scorer(huge).score(some)
    assert np.isfinite(scores).all() and scores.min() < -300
    np.testing.assert_allclose(scores, model_scores(huge, some), rtol=2e-6, atol=1e-3)


def test_vocabularies_larger_than_one_part_of_the_sum_are_scored():
    keras.utils.set_random_seed(3)
    wide = RNNEncoderDecoder(WORDS, 5000, embedding_dim=4, units=8, maxout_units=4, output_rank=5, initial_stddev=0.3)
    random = np.random.default_rng(3)
    some = [([5, 2], [*random.integers(3, 5003, 4).tolist(), 2]) for _ in range(50)]
    np.testing.assert_allclose(Scorer(wide).score(some), model_scores(wide, some), rtol=2e-6, atol=1e-4)


def test_a_source_with_more_targets_than_a_group_holds(model, scorer):
    random = np.random.default_rng(8)
    many = [([5, 6, 2], [*random.integers(3, 3 + WORDS, 5).tolist(), 2]) for _ in range(8000)]
    np.testing.assert_allclose(scorer.score(many)[::40], model_scores(model, many[::40]), rtol=2e-6, atol=1e-4)


def test_a_sequence_of_more_than_a_thousand_words(model, scorer):
    long = [*np.random.default_rng(9).integers(3, 3 + WORDS, 1100).tolist(), 2]
    some = [(long, [4, 2]), ([4, 2], long)]
    # `predict` compiles the loop: step by step, the model takes long.
    sides = {"source": pad([source for source, _ in some]), "target": pad([target for _, target in some])}
    for row, expected in zip(scorer.token_scores(some), model.predict(sides, verbose=0), strict=True):
        np.testing.assert_allclose(row, expected[: len(row)], atol=1e-4)


@pytest.mark.parametrize(
    "pair, message",
    [
        (([5, 2], [6]), r"target \[6\], expected ids from 1 to 25 closed by the end of sequence, 2"),
        (([5, 2], []), r"target \[\], expected"),
        (([], [6, 2]), r"source \[\], expected"),
        (([5, 26, 2], [6, 2]), r"source \[5, 26, 2\], expected ids from 1 to 25"),
        (([5, 0, 2], [6, 2]), r"source \[5, 0, 2\], expected"),
        (([5, 2], [-1, 2]), r"target \[-1, 2\], expected"),
    ],
)
def test_sequences_that_the_model_cannot_read_are_refused(scorer, pair, message):
    for others in ([], [([5, 2], [6, 2])]):
        with pytest.raises(ValueError, match=message):
            scorer.score([*others, pair])


@pytest.mark.parametrize("pair", [([5, 2], [6, 2], 0.5), ([5, 2],), (5, 2), 5, ("open", "ouvrir"), ([5, 2], None)])
def test_anything_but_a_pair_of_ids_is_refused(scorer, pair):
    message = re.escape(f"found {reprlib.repr(pair)} in place of a pair, expected (source ids, target ids)")
    for score in (scorer.score, scorer.token_scores):
        with pytest.raises(ValueError, match=message):
            score([([5, 2], [6, 2]), pair])


def test_targets_in_place_of_spellings_are_refused(scorer):
    ids = np.array([[5, 6, 2], [7, 8, 2]])
    for score in (scorer.score, scorer.token_scores):
        with pytest.raises(ValueError, match=r"found the spellings array.*, expected PairSpellings; the pairs are"):
            score(ids, ids)


def test_a_model_in_double_precision_is_scored():
    with double_precision():
        some = random_pairs(20, 6)
        scores = Scorer(random_model(dtype="float64")).score(some)
    np.testing.assert_allclose(scores, model_scores(random_model(), some), atol=1e-4)


def test_a_closed_scorer_refuses_to_score(model):
    other = Scorer(model)
    other.close()
    with pytest.raises(RuntimeError):
        other.score([([5, 2], [6, 2])])


def available_dtypes():
    """The dtypes that this backend computes scores in on this machine."""
    try:
        ModelInDtype(random_model(), "int8")
    except ConfigurationError:
        return ["float32", "bfloat16"]
    return ["float32", "bfloat16", "int8"]


@pytest.mark.parametrize("dtype", available_dtypes())
def test_the_dtype_of_the_computation_can_be_chosen(dtype):
    trained, some = random_model(dtype="mixed_bfloat16"), random_pairs(50, 6)
    full = model_scores(random_model(), some)
    error = np.abs(Scorer(trained, dtype).score(some) - full)
    if dtype == "float32":
        assert error.max() < 1e-4
    else:
        assert error.max() > 1e-3 and np.median(error) < 0.1 * full.std()


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_low_precision_scores_equal_the_models(policy):
    low = random_model(dtype=policy)
    some = random_pairs(50, 6)
    scores, full = Scorer(low).score(some), model_scores(random_model(), some)
    assert np.isfinite(scores).all()
    # bfloat16 has 8 bits of precision, and such large weights make its rounding errors large.
    assert np.median(np.abs(scores - full)) < 0.1 * full.std()
    assert np.median(np.abs(scores - model_scores(low, some))) < 0.1 * full.std()


@pytest.mark.skipif(
    keras.backend.backend() != "torch" and not on_cpu(), reason="elsewhere, XLA chooses which logits it rounds"
)
@pytest.mark.parametrize("dtype", available_dtypes())
def test_no_token_is_more_probable_than_one(dtype):
    """The logit of a word is rounded like those in the sum over all words, even if it is nearly the whole sum."""
    ngrams = FeedForwardLanguageModel(WORDS, ngram_order=3, embedding_dim=4, hidden_units=(8,), initial_scale=1.0)
    for model in random_model(), ngrams:
        _, bias = model.decoder.output_weights
        bias.assign([0.0, 0.0, 40.0, *[0.0] * WORDS])
        ends = [tokens[-1] for tokens in Scorer(model, dtype).token_scores(random_pairs(50, 6))]
        np.testing.assert_allclose(ends, 0.0, atol=0.005)


@pytest.mark.parametrize("dtype", available_dtypes())
def test_a_model_that_was_trained_further_is_scored_with_its_new_weights(dtype):
    model, some = random_model(dtype="mixed_bfloat16"), random_pairs(20, 6)
    scorer = Scorer(model, dtype)
    before = scorer.score(some)
    np.testing.assert_array_equal(scorer.score(some), before)
    model.set_weights(random_model(1).get_weights())
    replaced = scorer.score(some)
    np.testing.assert_array_equal(replaced, Scorer(model, dtype).score(some))
    model.compile(keras.optimizers.SGD(0.01))
    model.fit({side: np.array([[5, 7, 2]]) for side in ("source", "target")}, verbose=0)
    trained = scorer.score(some)
    np.testing.assert_array_equal(trained, Scorer(model, dtype).score(some))
    assert (before != replaced).all() and (replaced != trained).any()


def test_ngrams_are_scored_with_the_new_weights_of_a_model_that_was_trained_further():
    model = FeedForwardLanguageModel(WORDS, ngram_order=3, embedding_dim=4, hidden_units=(8, 6), dtype="mixed_bfloat16")
    scorer, some = Scorer(model), random_pairs(20, 6)
    before = scorer.score(some)
    model.set_weights([weight + 0.5 for weight in model.get_weights()])
    after = scorer.score(some)
    assert (before != after).any()
    np.testing.assert_array_equal(after, Scorer(model).score(some))
