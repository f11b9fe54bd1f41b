"""The spelling of words inside a graph against Python's."""

import unicodedata

import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_encdec.export.character_ids import CharacterIds
from keras_encdec.text import Vocabulary
from keras_encdec.text.vocabulary import spelled

CHARACTERS = Vocabulary([*"abcé語가각", "\u0301", "\u0323", "\u1ea1", "\u2028", "ệ", "s", "ṩ"])
IDS = CharacterIds(CHARACTERS)
spell = tf.function(IDS, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
# Marks of several classes, jamo and syllables, and characters that are never composed.
PIECES = (
    "aeosk\u0301\u0323\u0302\u0307\u0338\u05b4\u0f73\u0344\u1100\u1161\u11a8\u11a7가각\u212b\u0958\u2126ệᾂ語\U0001d15e"
)


@settings(max_examples=60)
@given(st.lists(st.text(st.sampled_from(PIECES) | st.characters(exclude_categories=["Cs"]), max_size=70)))
@example(["e\u0301" * 60, "x" * 1200, "", "가\u11a8", "a\u0338\u0323\u0301", "\u0301\u0323a"])
def test_words_get_the_spellings_of_python(words):
    found = spell(tf.constant(words, tf.string, (len(words),))).numpy()
    assert found.tolist() == spelled(words, CHARACTERS).tolist()


def test_every_character_is_composed_as_by_python():
    characters = [chr(code) for code in range(0x110000) if unicodedata.normalize("NFD", chr(code)) != chr(code)]
    words = [word for character in characters for word in (character, unicodedata.normalize("NFD", character))]
    codes = tf.strings.unicode_decode(words, "UTF-8").to_tensor(-1)
    found = IDS._composition(codes)
    text = tf.strings.unicode_encode(tf.RaggedTensor.from_tensor(found, padding=-1), "UTF-8").numpy()
    assert [word.decode() for word in text] == [unicodedata.normalize("NFC", word) for word in words]


def test_spellings_become_words():
    words = ["語ab", "ṩ", "\u2028"]
    found = IDS.words(tf.constant(spelled(words, CHARACTERS))).numpy()
    assert [word.decode() for word in found] == words
