"""Scoring a model that keeps the decoder contract and is unlike any in the package."""

from unittest import mock

import numpy as np
import pytest
from keras import ops
from layer_checks import numpy
from toy_bigrams import bigram_model
from toy_contract import expected_log_probs, window_model

from keras_encdec.data import pad
from keras_encdec.decoding import BeamSampler, Generator
from keras_encdec.models import Decoder, RNNEncoderDecoder
from keras_encdec.models.contract import TensorSpec
from keras_encdec.models.rnn_encoder_decoder import RNNDecoder
from keras_encdec.scoring import Scorer, scorer


@pytest.fixture(scope="module")
def model():
    return window_model()


def random_pairs(number, seed=0):
    random = np.random.default_rng(seed)

    def sequence(words, longest):
        return [*random.integers(3, 3 + words, random.integers(0, longest)).tolist(), 2]

    return [(sequence(6, 20), sequence(7, 6)) for _ in range(number)]


def test_the_model_follows_its_definition(model):
    pairs = random_pairs(12)
    tokens = numpy(model.token_log_probs(*(pad(side) for side in zip(*pairs, strict=True))))
    for row, (source, target) in zip(tokens, pairs, strict=True):
        np.testing.assert_allclose(row[: len(target)], expected_log_probs(model, source, target), atol=1e-4)


def test_rows_may_belong_to_any_source(model):
    """The same step with rows grouped evenly, and with rows that say which source they belong to."""
    source = pad([[3, 4, 2], [5, 2], [6, 7, 8, 2]])
    state, memory = model.start(source)
    order, previous = np.repeat(np.arange(3), 2), np.array([3, 4, 5, 6, 7, 8], "int32")
    rows = {name: ops.convert_to_numpy(tensor)[order] for name, tensor in state.items()}
    evenly, _ = model.decoder.step(previous, rows, memory)
    shuffled = np.array([4, 1, 5, 0, 3, 2])
    moved = {name: tensor[shuffled] for name, tensor in rows.items()}
    named, _ = model.decoder.step(previous[shuffled], moved, memory, order[shuffled].astype("int32"))
    np.testing.assert_allclose(numpy(named), numpy(evenly)[shuffled], atol=1e-6)


@pytest.mark.parametrize("memory_bytes", [1 << 28, 1 << 12], ids=["one group", "many groups"])
def test_scores_are_those_of_the_definition_whatever_they_are_scored_with(model, monkeypatch, memory_bytes):
    monkeypatch.setattr(scorer, "BYTES", memory_bytes)
    pairs = random_pairs(60)
    pairs += [(source, target) for source, _ in pairs[:3] for _, target in random_pairs(30, seed=1)]
    several = Scorer(model)
    tokens = several.token_scores(pairs)
    for found, (source, target) in zip(tokens, pairs, strict=True):
        np.testing.assert_allclose(found, expected_log_probs(model, source, target), atol=1e-4)
    alone = several.score(pairs[5:6])
    assert alone[0] == pytest.approx(tokens[5].sum(), abs=1e-4)


@pytest.mark.parametrize(
    ("part", "spec", "message"),
    [
        ("memory", {}, r"found \['annotations', 'mask'\] as memory, expected a dict of \[\], the names in memory_spec"),
        ("encoded", {"mask": TensorSpec((None,), time_axis=1)}, "found .* as encoded, expected a dict of .'mask'.,"),
        (
            "state",
            {"window": TensorSpec((2,), "int32")},
            r"'window' in state of .*3\) and .*, expected \(None, 2\) and int32",
        ),
        (
            "state",
            {"window": TensorSpec((3,))},
            "'window' in state .* dtype int32, expected .*a float, as state_spec decl",
        ),
        (
            "state",
            {"attention": TensorSpec((None,), "int32", 1)},
            "'attention' in state .* dtype float32, expected .*int32",
        ),
    ],
)
def test_what_a_model_computes_must_be_what_it_declares(part, spec, message, uncompiled):
    """Without an error, tables would cast values to integers, and scores would be wrong."""
    model = window_model()
    side = type(model.encoder if part == "encoded" else model.decoder)
    given = getattr(side, f"{part}_spec")
    declared = property(lambda side: spec if part != "state" else {**given.fget(side), **spec})
    with mock.patch.object(side, f"{part}_spec", declared), pytest.raises(ValueError, match=message):
        Scorer(model).score(random_pairs(3))


@pytest.mark.parametrize("name", ["start", "state_spec", "output_weights"])
def test_a_decoder_that_lacks_a_part_of_the_contract_is_named(name, uncompiled):
    model = window_model()
    missing = mock.patch.object(type(model.decoder), name, getattr(Decoder, name))
    with missing, pytest.raises(NotImplementedError, match=f"found WindowDecoder without {name}, expected a class"):
        Scorer(model).score(random_pairs(3))


def test_a_decoder_after_an_incremental_encoder_must_compute_what_it_declares(uncompiled):
    model = RNNEncoderDecoder(6, 7, embedding_dim=2, units=2, maxout_units=2, output_rank=2)
    integers = property(lambda decoder: {"hidden": TensorSpec((2,), "int32")})
    expected = (
        r"found 'hidden' in state of shape .*2\) and dtype float32, expected .* and int32, as state_spec declares"
    )
    with mock.patch.object(RNNDecoder, "state_spec", integers), pytest.raises(ValueError, match=expected):
        Scorer(model).score(random_pairs(3))


def test_a_decoder_without_a_state_is_scored_and_searched():
    model = bigram_model()
    pairs = [([5, 6, 2], [4, 7, 2]), ([5, 2], [2]), ([5, 6, 2], [4, 2]), ([3, 2], [4, 7, 8, 2])]
    expected = numpy(model.score(pad([source for source, _ in pairs]), pad([target for _, target in pairs])))
    assert np.std(expected) > 0.1
    np.testing.assert_allclose(Scorer(model).score(pairs), expected, atol=1e-4)
    for sampler in ("greedy", BeamSampler(3)):
        sources = [[5, 6, 2], [3, 2]]
        for source, (best, *_) in zip(sources, Generator(model).generate(sources, sampler), strict=True):
            assert best.log_prob == pytest.approx(numpy(model.score([source], [best.ids]))[0], abs=1e-4)
