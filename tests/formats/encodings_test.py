"""Tests of reading a file in its encoding, and of escapes and factors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import FileEncoding, escape, model_words, surface, unescape

PIECES = ["&", "amp;", "lt;", "quot;", "&amp;", "&#124;", "&bar;", "|", "<", ">", '"', "'", "[", "]", " "]
TEXT = st.lists(st.sampled_from(PIECES)).map("".join) | st.text()


@pytest.mark.parametrize("name", ["utf-8", "latin-1", "ISO-8859-2", "cp1252", "koi8-r", "gbk", "euc_jp"])
def test_a_declared_encoding_keeps_undecodable_bytes(name):
    encoding, data = FileEncoding(name), b"a\xff\xe9 b\x81"
    assert encoding.encode(encoding.decode(data)) == data


def test_without_a_declared_encoding_bytes_must_be_utf8():
    assert FileEncoding().decode("é".encode()) == "é"
    with pytest.raises(UnicodeDecodeError):
        FileEncoding().decode(b"\xe9")


def test_an_error_names_the_line_and_the_character_that_an_encoding_lacks():
    encoding = FileEncoding("latin-1")
    assert encoding.encode_line("café \udcff", "in.txt", 3) == b"caf\xe9 \xff"
    with pytest.raises(InputError, match="in.txt, line 3: found '\u20ac' in the tokenized text, .*latin-1") as caught:
        encoding.encode_line("5 €", "in.txt", 3)
    assert "expected one that has all of its characters; convert the file to UTF-8" in str(caught.value)


def test_only_utf8_has_a_byte_order_mark():
    names = [None, "utf-8", "utf-8-sig", "U8", "latin-1", "gb18030"]
    assert [FileEncoding(name).is_utf8 for name in names] == [True, True, True, True, False, False]


@pytest.mark.parametrize("name", ["utf-16", "utf-16le", "utf_32", "utf-7", "cp037", "base64", "x\0y"])
def test_an_encoding_that_is_not_compatible_with_ascii_is_an_error(name):
    with pytest.raises(InputError, match="; name one that contains ASCII, such as"):
        FileEncoding(name)


@given(TEXT)
def test_unescape_undoes_escape(text):
    escaped = escape(text)
    assert unescape(escaped) == text
    assert not set("|<>\"'[]") & set(escaped)


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        ("&quot;&apos;&#124;&#91;&#93;&lt;&gt;&amp;", "\"'|[]<>&"),
        ("&bar; &bra; &ket;", "| [ ]"),
        ("&amp;lt; &amp;amp; &amp;#124;", "&lt; &amp; &#124;"),
        ("AT&T & &eacute; &lt", "AT&T & &eacute; &lt"),
    ],
)
def test_escapes_are_those_of_moses(escaped, plain):
    assert unescape(escaped) == plain


@pytest.mark.parametrize(
    ("factored", "words"),
    [
        ("the|DT|the houses|NNS|house", "the houses"),
        ("no factors", "no factors"),
        ("half|X done", "half done"),
        ("empty| factor", "empty factor"),
        ("| || |x a|b", "| || |x a"),
        ("a|b  c|d\te|f", "a  c\te"),
        ("no\u00a0break|X", "no\u00a0break"),
        ("", ""),
    ],
)
def test_surface_leaves_the_first_factor(factored, words):
    assert surface(factored) == words


@given(st.lists(st.tuples(st.text("ab&é\u3000", min_size=1), st.lists(st.text("xyz"), max_size=2))))
def test_surface_is_the_first_factor_of_each_word(tokens):
    phrase = " ".join("|".join([word, *factors]) for word, factors in tokens)
    assert surface(phrase) == " ".join(word for word, _ in tokens)


def test_factors_are_removed_before_escapes():
    assert model_words("&#124;|PUNC a&#124;b|X") == ["|", "a|b"]
    assert model_words("a|b &amp;", factored=False) == ["a|b", "&"]


@pytest.mark.parametrize("separator", [*"\u00a0\u3000\u2028\x85\x1c\x0b\x0c\r\n"])
def test_only_spaces_and_tabs_separate_words(separator):
    assert model_words(f"one{separator}word two") == [f"one{separator}word", "two"]


@pytest.mark.parametrize("phrase", ["a b", " a b ", "a  b", "a\tb", "\ta \t b  "])
def test_runs_of_spaces_and_tabs_are_tolerated(phrase):
    assert model_words(phrase) == ["a", "b"]


@pytest.mark.parametrize("phrase", ["", " ", "\t "])
def test_an_empty_phrase_has_no_words(phrase):
    assert model_words(phrase) == []
