"""Tests of errors that users see."""

import errno
import os
import pickle

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError, explained, quoted, shortened


@pytest.mark.parametrize(
    "error",
    [
        InputError("found 3 scores", "expected 4", "repair the line", "table.gz", 7),
        ConfigurationError("found {units}=%r, expected %s", "5 %", 1),
    ],
)
def test_a_pickled_error_stays_the_same(error):
    raised = pickle.loads(pickle.dumps(error))
    assert (type(raised), str(raised), vars(raised)) == (type(error), str(error), vars(error))


def test_quoted_text_is_cut_and_shows_invisible_characters():
    assert quoted("le chat") == quoted(b"le chat") == '"le chat"'
    assert quoted("a" * 80) == f'"{"a" * 80}"'
    assert quoted("a" * 81) == f'"{"a" * 80}..." (81 characters)'
    assert quoted(b"caf\xe9 \x1b[31m") == r'"caf\xe9 \x1b[31m"'
    assert quoted("a\vb\u00a0") == r'"a\x0bb\xa0"'
    assert shortened("N" * 5000) == "N" * 80 + "..."


def test_control_characters_are_written_as_escapes():
    """A file cannot move the cursor of the terminal that shows an error about it, or turn its text around."""
    error = InputError('found "\x1b[2J\u202e\n"', "expected a word", path="a\x07b")
    assert str(error) == r'a\x07b: found "\x1b[2J\u202e\n", expected a word.'
    assert str(InputError("found « café »")) == "found « café »."


def test_bytes_that_are_not_utf_8_are_written_as_bytes():
    text = b"caf\xe9 \x80\xff".decode("utf-8", "surrogateescape")
    assert str(InputError(f"found {text}", path=f"{text}.txt")) == (
        "caf\\xe9 \\x80\\xff.txt: found caf\\xe9 \\x80\\xff."
    )


def test_a_long_part_of_a_sentence_is_cut():
    error = str(InputError(f"found {'a' * 70_000}", "expected a word", "shorten it"))
    assert len(error) < 800 and error.endswith("a..., expected a word; shorten it.")
    for form in ("%s", "%r"):
        error = str(ConfigurationError(f"found {{word}}={form}, expected a shorter one", "a" * 5000))
        assert len(error) < 800 and error.startswith("found word=") and error.endswith(", expected a shorter one")


def test_a_limit_of_the_system_is_named():
    found = "pairs: found too many open files when trying to write; raise the limit \\(ulimit -n\\), and run again."
    with pytest.raises(InputError, match=found), explained("pairs", "to write"):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
