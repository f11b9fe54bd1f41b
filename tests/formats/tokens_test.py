"""Tests of splitting text into tokens."""

import ast
import pathlib

import pytest

import keras_encdec
from keras_encdec.formats.encodings import model_words
from keras_encdec.formats.fields import split_tokens

PACKAGE = pathlib.Path(keras_encdec.__file__).parent
# Modules that may call split() without arguments, because their text is not a file of tokens (messages, pages, names).
OTHER_TEXT = {
    "analysis/page/page.py",
    "analysis/page/state_sections.py",
    "backend/devices.py",
    "datasets/libreoffice.py",
    "diagnosis/machine.py",  # files of the Linux kernel
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
