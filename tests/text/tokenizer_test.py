"""Tests of the tokenizer, and of joining subwords to words."""

import pickle
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.text import Tokenizer
from keras_encdec.text.tokenizer import join_bpe, join_sentencepiece


@pytest.fixture(scope="module")
def tokenizer():
    pytest.importorskip("tensorflow_text")
    return Tokenizer()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Open the file.", "Open the file ."),
        ("(50%) of $3,000.50?!", "( 50 % ) of $ 3 , 000 . 50 ? !"),
        ("l’été d'été ‘oui’", "l ' été d ' été ' oui '"),
        ("e\u0301te\u0301", "été"),  # accents that stand for themselves are composed
        ("ﬁle № １２ … x²", "file No 12 . . . x2"),  # compatibility characters are replaced
        ("10\u00a0000 a\u2009b\u3000c", "10 000 a b c"),
        ("well-known «guillemets» a→b", "well - known « guillemets » a → b"),
        ("snake_case R&D a|b <tag>", "snake _ case R & D a | b < tag >"),
        ("the <unk>(<unk>) unk", "the <unk> ( <unk> ) unk"),  # the unknown word in text that a model wrote
        ("日本語。", "日本語 。"),
        ("  two  spaces\t tab \r\n", "two spaces tab"),
        ("control\u0085characters\u001cseparate\0too", "control characters separate too"),
        ("", ""),
        (" \t ", ""),
    ],
)
def test_text_is_normalized_and_punctuation_separated(tokenizer, text, tokens):
    assert tokenizer([text]).numpy()[0].decode() == tokens
    assert tokenizer.words([text]) == [tokens.split()]


def test_case_is_folded_only_on_request(tokenizer):
    assert tokenizer.words(["STRASSE Straße ÉTÉ"]) == [["STRASSE", "Straße", "ÉTÉ"]]
    assert Tokenizer(lowercase=True).words(["STRASSE Straße ÉTÉ"]) == [["strasse", "strasse", "été"]]


def test_a_pickled_tokenizer_splits_as_before(tokenizer):
    tokenizer = pickle.loads(pickle.dumps(Tokenizer(lowercase=True)))
    assert tokenizer.words(["Don't!"]) == [["don", "'", "t", "!"]]


def test_no_lines_give_no_lines(tokenizer):
    assert tokenizer.words([]) == []


def test_a_byte_that_was_not_decoded_reads_as_a_question_mark(tokenizer):
    assert tokenizer.words(["caf\udce9"]) == [["caf", "?"]]


TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("'’.,- aÉ\u00a0\u001c\u0085\u2028\u0301"))


@settings(max_examples=15)
@given(st.lists(TEXT, min_size=1, max_size=40), st.booleans())
def test_the_same_tokens_come_out_eagerly_and_inside_tf_data(lines, lowercase):
    pytest.importorskip("tensorflow_text")
    import tensorflow as tf

    tokenizer = Tokenizer(lowercase)
    eager = tokenizer(lines).numpy().tolist()
    dataset = tf.data.Dataset.from_tensor_slices(lines).batch(7).map(tokenizer).unbatch()
    assert list(dataset.as_numpy_iterator()) == eager
    assert [b" ".join(word.encode() for word in words) for words in tokenizer.words(lines)] == eager
    assert all(token for line in eager if line for token in line.split(b" "))


def test_tokens_are_tokenized_to_themselves(tokenizer):
    lines = ["Open the file (l’été, 50%)…", "well-known"]
    once = tokenizer(lines)
    assert tokenizer(once).numpy().tolist() == once.numpy().tolist()


def test_a_missing_tensorflow_text_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(ImportError, match="needs tensorflow-text, .*: install it, or give text that is already"):
        Tokenizer()


def test_a_no_break_space_at_an_end_is_kept_where_pieces_are_joined():
    assert join_bpe(["\u00a0", "a@@", "b\u3000"]) == "\u00a0 ab\u3000"
    assert join_sentencepiece(["\u2581\u00a0", "\u2581a", "b\u3000"]) == "\u00a0 ab\u3000"


def test_triton_is_imported_before_tensorflow_text(monkeypatch):
    found = []
    monkeypatch.setattr("keras_encdec.text.tokenizer.import_triton", lambda: found.append("triton"))
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(ImportError, match="tensorflow-text, which is not installed"):
        Tokenizer()
    assert found == ["triton"]
