"""The ids of phrases inside a graph against those of the vocabulary, and the spelling of words against Python's."""

import unicodedata

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_encdec.export.phrase_ids import CharacterIds, PhraseIds
from keras_encdec.formats import model_words
from keras_encdec.text import Vocabulary
from keras_encdec.text.vocabulary import spelled

WORDS = ["a", "é", "&", "\r", "a\rb", "b\r", "\x85", "\x0b", "\0", "\u2028", "\u00a0", "\ufeff", '"', "&lt;", "\\1"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A vocabulary of words that could be misread because of files, regular expressions or white space."""
    vocabulary = Vocabulary([*WORDS, "caf\udce9"])
    return vocabulary, PhraseIds(vocabulary, tmp_path_factory.mktemp("odd") / "odd.vocab", True, 1000)


PIECES = [*WORDS, " ", "\t", "  ", "&quot;", "&amp;", "&apos;", "&#124;", "&bar;", "amp;", ";", "x", "\n", "\x1c"]


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=["Cs"]))).map("".join)))
@example(["&amp; &quot; &amp;lt; &#124; &bar;", "\r a\rb b\r", " a  \t é "])
def test_phrases_get_the_ids_of_their_words(odd, texts):
    vocabulary, ids = odd
    expected = [vocabulary.encode(model_words(text, factored=False)) for text in texts]
    found, lengths, _ = ids(tf.constant(texts, tf.string, (len(texts),)), "source")
    assert lengths.numpy().tolist() == [len(row) for row in expected]
    for row, text in zip(found.numpy().tolist(), expected, strict=True):
        assert row[: len(text)] == text and not any(row[len(text) :])


CHARACTERS = Vocabulary([*"abcé語가각", "\u0301", "\u0323", "\u1ea1", "\u2028", "ệ", "s", "ṩ"])
IDS = CharacterIds(CHARACTERS)
spell = tf.function(IDS, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
# Marks of several classes, jamo and syllables, and characters that are never composed.
MARKED_PIECES = (
    "aeosk\u0301\u0323\u0302\u0307\u0338\u05b4\u0f73\u0344\u1100\u1161\u11a8\u11a7가각\u212b\u0958\u2126ệᾂ語\U0001d15e"
)


@settings(max_examples=60)
@given(st.lists(st.text(st.sampled_from(MARKED_PIECES) | st.characters(exclude_categories=["Cs"]), max_size=70)))
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
