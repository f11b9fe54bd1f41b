"""Hybrid word-character models against the oracle, and the properties of their probabilities and inputs."""

import itertools

import hybrid_oracle
import keras
import numpy as np
import pytest
from gradients import assert_finite_differences, double_precision, gradients_by
from hybrid_toys import PAIRS, hybrid, inputs_of, log_probs
from recurrent_toys import padded

from keras_encdec.architectures import RecurrentEncoderDecoderConfig
from keras_encdec.configuration import ConfigurationError
from keras_encdec.models import RecurrentEncoderDecoder
from keras_encdec.models.symbols import from_symbols, to_symbols

DOUBLE = 1e-8
PATHS = {"separate": {}, "same": {"character_path": "same", "character_units": 4}}


@pytest.mark.parametrize("path", PATHS)
def test_scores_and_gradients_are_the_oracles(path):
    with double_precision():
        model = hybrid(dtype="float64", **PATHS[path])
        weights = to_symbols(model)
        expected = [hybrid_oracle.log_prob(weights, *pair) for pair in PAIRS]
        np.testing.assert_allclose(log_probs(model, PAIRS), expected, atol=DOUBLE)
        gradients = gradients_by(to_symbols, model, **inputs_of(PAIRS[:2]))

    def total(arrays):
        return sum(hybrid_oracle.log_prob(arrays, *pair) for pair in PAIRS[:2])

    after_padding = {"elements": 1, "first_row": lambda symbol: symbol.endswith(".E")}
    assert_finite_differences(gradients, total, weights, **after_padding)


def test_without_rare_words_the_weights_of_characters_have_gradients_of_zero():
    gradients = gradients_by(to_symbols, hybrid(), **inputs_of([([3], [4])]))
    unused = {name: array for name, array in gradients.items() if name.startswith(("reader", "speller"))}
    assert unused and not any(array.any() for array in unused.values())


def test_a_score_does_not_depend_on_the_batch_and_padding():
    model = hybrid(input_feeding=False)
    together = log_probs(model, PAIRS, width=9)
    np.testing.assert_allclose(together, [log_probs(model, [pair])[0] for pair in PAIRS], atol=1e-4)


def test_probabilities_of_all_spellings_sum_to_one(monkeypatch):
    monkeypatch.setattr("keras_encdec.models.characters.MAX_WORD_LENGTH", 3)
    speller = hybrid().decoder.speller
    spellings = [[*word, 2][:3] for length in range(4) for word in itertools.product((1, 3, 4, 5), repeat=length)]
    first = np.broadcast_to(np.float32([0.3, -0.2, 0.9, -0.5, 0.1]), (len(spellings), 5))
    scores = keras.ops.convert_to_numpy(speller(np.array(first), padded(spellings)))
    np.testing.assert_allclose(np.exp(scores).sum(), 1, atol=1e-5)


@pytest.mark.parametrize("characters", ["source", "target"])
def test_one_side_alone_may_have_characters(characters):
    model = hybrid(characters, character_path=None, attention="global")
    arrays = inputs_of(PAIRS)
    if characters == "target":
        arrays["source"] = np.where(arrays["source"] >= 6, 1, arrays["source"])
    scores = keras.ops.convert_to_numpy(model(arrays))
    assert np.isfinite(scores).all()
    symbols = to_symbols(model)
    assert ("reader.P" in symbols) == (characters == "source")
    assert ("speller.W_s" in symbols) == (characters == "target")
    other = from_symbols(RecurrentEncoderDecoder.from_config(model.get_config()), symbols)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(other(arrays)), scores, atol=1e-6)


def test_characters_may_have_their_own_dropout():
    for given, expected in ((None, 0.5), (0.0, 0.0)):
        model = hybrid(dropout=0.5, character_dropout=given)
        layers = model.encoder.reader, model.decoder.speller, model.decoder.speller.decoder, model.decoder
        assert [layer.dropout for layer in layers] == [expected] * 3 + [0.5]


def test_a_summary_may_list_nested_layers():
    lines = []
    hybrid().summary(print_fn=lines.append, expand_nested=True)
    assert "decoder (AttentionDecoder)" in "".join(lines)


def test_keep_words_ends_when_the_model_is_compiled_without_it():
    model = hybrid()
    model.compile("adam", "mean", keep_words=True)
    characters = [*model.encoder.reader.weights, *model.decoder.speller.weights]
    assert set(map(id, model.trainable_weights)) == set(map(id, characters))
    again = RecurrentEncoderDecoder.from_config(model.get_config())
    again.compile_from_config(model.get_compile_config())
    assert len(again.trainable_weights) == len(characters) and again.reduction == "mean"
    model.compile("adam")
    assert len(model.trainable_weights) == len(model.weights)
    with pytest.raises(ValueError, match="found keep_words, expected a model with characters"):
        RecurrentEncoderDecoder(3, 3, units=4, embedding_dim=4).compile("adam", keep_words=True)


def test_fitting_a_hybrid_model_to_arrays_is_refused():
    model = hybrid()
    model.compile("sgd")
    with pytest.raises(ValueError, match=r"pass \(\(batch,\) for batch in stream\) with the stream of .*data.Batches"):
        model.fit({"source": padded([[3, 2]]), "target": padded([[3, 2]])})


@pytest.mark.parametrize(
    "values, message",
    [
        ({"character_units": 8}, "found character_units=8 without characters"),
        ({"characters": "target"}, "found characters=target without attention"),
        ({"characters": "source", "character_path": "same"}, "expected it with target or both"),
        (
            {"characters": "both", "attention": "global", "character_path": "same", "character_units": 8, "units": 9},
            "expected equal numbers",
        ),
    ],
)
def test_contradictory_settings_are_refused(values, message):
    with pytest.raises(ConfigurationError, match=message):
        RecurrentEncoderDecoderConfig(**values)
