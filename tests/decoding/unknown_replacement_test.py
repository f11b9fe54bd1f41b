"""Unknown words are replaced by the source word that they come from."""

import numpy as np
import pytest

from keras_encdec.decoding.unknown_replacement import UnknownReplacement

SOURCE = ["Anna", "mange", "une", "pomme"]
DICTIONARY = {"pomme": "apple", "mange": "eats"}


@pytest.mark.parametrize(
    "words, expected",
    [
        (["unkpos_0", "unkpos_0", "an", "unkpos_0"], ["Anna", "eats", "an", "apple"]),
        (["unkpos_-3", "unkpos_1"], ["apple", "Anna"]),
        (["unkpos_1", "unkpos_-9", "unkpos_null"], ["<unk>", "<unk>", "<unk>"]),
        (["<unk>", "unkpos", "unkpos_x", "xunkpos_0"], ["<unk>", "unkpos", "unkpos_x", "xunkpos_0"]),
        ([], []),
    ],
)
def test_position_words_name_their_source_word(words, expected):
    assert UnknownReplacement(DICTIONARY).replaced(words, SOURCE) == expected


def test_attention_names_it_otherwise():
    attention = np.array([[0.9, 0.0, 0, 0, 0.1], [0.0, 0.1, 0.1, 0.2, 0.6], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]])
    words = ["<unk>", "<unk>", "unkpos_null"]
    # The end of the source, the last column, is no word.
    assert UnknownReplacement(DICTIONARY).replaced(words, SOURCE, attention) == ["Anna", "apple", "eats"]
    assert UnknownReplacement().replaced(words, SOURCE, attention) == ["Anna", "pomme", "mange"]
    # A position outside the source is none.
    assert UnknownReplacement(DICTIONARY).replaced(["unkpos_1", "unkpos_-3"], SOURCE, attention) == ["Anna", "apple"]
    assert UnknownReplacement().replaced(["<unk>"], [], attention[:, 4:]) == ["<unk>"]
