"""The gates of encoders, and what units do over a corpus."""

import numpy as np
import pytest
from keras import ops
from toy_models import SOURCE_WORDS, TARGET_WORDS, save_model

from keras_encdec.analysis import PhraseGates, UnitGates, phrase_gates
from keras_encdec.analysis.gates import has_gates
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import to_symbols

GATED_PHRASES = ["le chat la maison", "l&apos; été"]


def last_state(directory, gates, suffix="", reset_after=False):
    """h after the last word, by the equations, with the gates that were found."""
    weights = {name.removesuffix(suffix): array for name, array in to_symbols(directory.model).items()}
    hidden = np.zeros(gates.update.shape[1])
    ids = directory.source_vocabulary.encode(gates.words[:-1])
    for one, update, reset in zip(ids, gates.update, gates.reset, strict=True):
        before = hidden @ weights["encoder.U"] * reset if reset_after else (reset * hidden) @ weights["encoder.U"]
        new = np.tanh(weights["source.E"][one] @ weights["encoder.W"] + weights["encoder.b"] + before)
        hidden = update * hidden + (1 - update) * new
    return hidden, weights


@pytest.mark.parametrize("reset_after", [False, True])
def test_the_gates_reproduce_the_encoders_state(tmp_path, reset_after):
    path = save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, reset_after=reset_after)
    directory = ModelDirectory.load(path)
    assert has_gates(directory)
    for gates in phrase_gates(directory, GATED_PHRASES):
        hidden, weights = last_state(directory, gates, reset_after=reset_after)
        source = np.array([directory.source_vocabulary.encode(gates.words[:-1])])
        summary = ops.convert_to_numpy(directory.model.encode(source)["summary"])[0]
        np.testing.assert_allclose(np.tanh(hidden @ weights["encoder.V"] + weights["encoder.b_V"]), summary, atol=1e-5)


def test_gates_of_a_model_that_reads_sentences_from_right_to_left(tmp_path):
    path = save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, cell="gru", reverse_source=True)
    directory = ModelDirectory.load(path)
    first, second = phrase_gates(directory, GATED_PHRASES)
    assert first.words == ["maison", "la", "chat", "le", "(end)"] and second.words == ["été", "l'", "(end)"]
    source = np.array([directory.source_vocabulary.encode(first.words[-2::-1])])
    state = ops.convert_to_numpy(directory.model.encode(source)["hidden_1"])[0]
    np.testing.assert_allclose(last_state(directory, first, suffix=".1")[0], state, atol=1e-5)


def test_words_of_a_text_have_no_factors(tmp_path):
    directory = ModelDirectory.load(save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS))
    [of_table], [of_text] = (phrase_gates(directory, ["le a|b"], factored) for factored in (True, False))
    assert of_table.words == ["le", "a", "(end)"] and of_text.words == ["le", "a|b", "(end)"]


def test_an_lstm_has_no_gates_to_show(tmp_path):
    path = save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, cell="lstm")
    assert not has_gates(ModelDirectory.load(path))
    with pytest.raises(ValueError, match="found an encoder without update and reset gates, expected one of GRUs"):
        phrase_gates(path, ["le chat"])


def test_units_over_a_corpus():
    words = ["a", "b", "a", "(end)"]
    update = np.array([[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [1.0, 0.4]])
    reset = np.array([[0.9, 0.4], [0.9, 0.1], [0.9, 0.4], [0.4, 0.6]])
    units = UnitGates.of([PhraseGates(words, update, reset)] * 3)
    np.testing.assert_allclose(units.kept, [0.9, 0.2])
    np.testing.assert_allclose(units.resets, [0.25, 0.75])
    assert units.tokens == 12 and units.words == ["a", "b", "(end)"]
    assert units.keep_longest(1).tolist() == [0] and units.reset_most(1).tolist() == [1]
    assert units.most_updating_words(0, 1) == ["b"]
    assert units.most_resetting_words(0, 1) == ["(end)"] and units.most_resetting_words(1, 2) == ["b", "a"]
    with pytest.raises(ValueError, match="found no phrase, expected the gates over one or more"):
        UnitGates.of([])
