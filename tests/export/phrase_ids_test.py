"""The ids of phrases inside a graph against those of the vocabulary."""

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_encdec.export.phrase_ids import PhraseIds
from keras_encdec.formats import model_words
from keras_encdec.text import Vocabulary

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
