"""Unknown words are replaced by their source words."""

import numpy as np
import pytest

from keras_encdec.decoding.text_generator import TextGenerator, UnknownReplacement
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.tokenizer import SUBWORD_JOINERS

SOURCE = ["Anna", "mange", "une", "pomme"]
DICTIONARY = {"pomme": "apple", "mange": "eats"}


def test_a_path_or_lists_of_words_in_place_of_texts_are_refused(model_dirs):
    for directories in (
        str(model_dirs / "forward"),
        model_dirs / "forward",
        [],
        ModelDirectory.load(model_dirs / "forward", weights=False),
    ):
        with pytest.raises(ValueError, match="expected a list of one or more model directories"):
            TextGenerator(directories)
    with pytest.raises(ValueError, match="found .'le', 'chat'., expected a list of texts; generate_words takes lists"):
        TextGenerator([model_dirs / "forward"]).generate([["le", "chat"]])
    with pytest.raises(ValueError, match="found None, expected a list of texts"):
        TextGenerator([model_dirs / "forward"]).generate(None)
    with pytest.raises(ValueError, match="found replacement='source', expected a keras_encdec.decoding.UnknownReplac"):
        TextGenerator([model_dirs / "forward"]).generate(["le chat"], replacement="source")


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


def test_other_unknown_words_come_from_the_source_word_of_most_attention():
    attention = np.array([[0.9, 0.0, 0, 0, 0.1], [0.0, 0.1, 0.1, 0.2, 0.6], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]])
    words = ["<unk>", "<unk>", "unkpos_null"]
    # The last column, the end of the source, is not a word.
    assert UnknownReplacement(DICTIONARY).replaced(words, SOURCE, attention) == ["Anna", "apple", "eats"]
    assert UnknownReplacement().replaced(words, SOURCE, attention) == ["Anna", "pomme", "mange"]
    assert UnknownReplacement({"pomme": ""}).replaced(words[:2], SOURCE, attention) == ["Anna", "pomme"]
    # Positions outside the source are ignored.
    assert UnknownReplacement(DICTIONARY).replaced(["unkpos_1", "unkpos_-3"], SOURCE, attention) == ["Anna", "apple"]
    assert UnknownReplacement().replaced(["<unk>"], [], attention[:, 4:]) == ["<unk>"]
    for sides in (("<unk>", SOURCE), (["<unk>"], "pomme"), ("apple", SOURCE)):
        with pytest.raises(ValueError, match="found the text .*, expected a list of words"):
            UnknownReplacement().replaced(*sides)


@pytest.mark.parametrize(
    "source, words, joined",
    [
        ("M@@ ün@@ chen ist x", "<unk> is", "München is"),
        ("M@@ ün@@ chen ist x", "in@@ <unk> is", "in München is"),
        ("der Hund@@ e@@ fänger", "the cat <unk> s", "the cat dog-catcher s"),
        ("▁in ▁Mün chen", "<unk> <unk> chen ▁is", "in München chen is"),
        ("▁der ▁Hund e fänger ▁M", "▁the <unk> x ▁M", "the dog-catcher x M"),
        ("▁das ▁Haus ▁M", "▁the <unk> ▁M", "the house M"),
        ("▁das ▁Rat haus ▁M", "▁the <unk> ▁M", "the town hall M"),
        ("das Rat@@ haus M", "the <unk> M", "the town hall M"),
    ],
)
@pytest.mark.parametrize("joined_at_once", [True, False])
def test_subwords_are_replaced_by_whole_words(source, words, joined, joined_at_once):
    """The pieces may be joined by the package or, after they are written, by another tool."""
    style = "sentencepiece" if "\u2581" in source else "bpe"
    dictionary = {"Hundefänger": "dog-catcher", "▁Haus": "▁house", "Rathaus": "town hall"}
    pieces = UnknownReplacement(dictionary).replaced(words.split(), source.split(), np.eye(9))
    text = SUBWORD_JOINERS[style](pieces if joined_at_once else " ".join(pieces).split(" "))
    assert text == joined


def test_an_unknown_word_that_is_not_replaced_is_a_separate_word():
    assert SUBWORD_JOINERS["bpe"](["a@@", "unkpos_1", "<unk>", "b@@", "c"]) == "a unkpos_1 <unk> bc"
    assert SUBWORD_JOINERS["sentencepiece"](["▁in", "<unk>", "chen", "unkpos_null"]) == "in <unk> chen unkpos_null"
