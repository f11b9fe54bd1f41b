"""Tests of splitting text into tokens, and of parsing numbers."""

import ast
import math
import pathlib

import pytest

import keras_encdec
from keras_encdec.formats.encodings import model_words
from keras_encdec.formats.fields import LARGEST, finite_number, split_tokens

PACKAGE = pathlib.Path(keras_encdec.__file__).parent
# Modules that may call split() without arguments, because their text is not a file of tokens (messages, pages, names).
OTHER_TEXT = {
    "backend/devices.py",
    "backend/startup.py",  # flags of TensorFlow
    "datasets/libreoffice.py",
    "diagnosis/diagnosis.py",  # files of the Linux kernel
    "formats/phrase_table.py",  # for speed, after a check that there is no other white space
    "smt/extraction/phrase_scoring.py",
    "smt/extraction/sentence_batches.py",
    "smt/ngrams/ngram_model.py",  # the message of an error
}


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \t ", []),
        ("a b", ["a", "b"]),
        ("\ta \t b ", ["a", "b"]),
        ("a\vb\fc\x1cd\u00a0e\u2003f\u0085g\rh", ["a\vb\fc\x1cd\u00a0e\u2003f\u0085g\rh"]),
    ],
)
def test_spaces_and_tabs_separate_tokens(text, tokens):
    assert split_tokens(text) == model_words(text) == tokens
    assert split_tokens(text.encode()) == [token.encode() for token in tokens]


def test_only_listed_modules_split_at_any_white_space():
    splits = set()
    for path in [*PACKAGE.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            is_split = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split"
            if is_split and not node.args and not node.keywords:
                splits.add(path.relative_to(PACKAGE).as_posix())
    assert splits == OTHER_TEXT


@pytest.mark.parametrize("text", ["0", "-1", "+2.5", ".5", "1.", "1e-05", "-3.3E+3", "1e308"])
def test_a_finite_number_is_read_as_python_reads_it(text):
    assert finite_number(text) == finite_number(text.encode()) == float(text)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "x", "inf", "-Infinity", "nan", "1_0", "0x1", "1e400", "-3.3e9999", "1" * 400, "\u0661"]
)
def test_text_that_is_not_a_finite_number_is_an_error(text):
    for form in (text, text.encode()):
        with pytest.raises(ValueError, match="expected a finite number"):
            finite_number(form)


def test_the_absolute_value_may_be_bounded():
    assert finite_number("-1e30", LARGEST) == -LARGEST
    for text in ("1.1e30", "-1e31"):
        with pytest.raises(ValueError, match="expected a finite number"):
            finite_number(text, LARGEST)
    assert math.isfinite(finite_number("-1e31"))
