"""Tests of reading dictionaries."""

import pytest

from keras_encdec.errors import InputError
from keras_encdec.text.tokenizer import read_dictionary


def test_lines_of_two_columns_or_three_are_read(tmp_path):
    (tmp_path / "words").write_bytes("\ufeffpomme\tapple\t17\r\nn\u00b0\tno.\n".encode())
    assert read_dictionary(tmp_path / "words") == {"pomme": "apple", "n\u00b0": "no."}


def test_an_encoding_can_be_declared_and_only_spaces_are_stripped(tmp_path):
    (tmp_path / "words").write_bytes("caf\xe9 \t coffee\n10\xa0000\t\xa0\n".encode("latin-1"))
    assert read_dictionary(tmp_path / "words", "latin-1") == {"caf\xe9": "coffee", "10\xa0000": "\xa0"}


@pytest.mark.parametrize(
    "line, message",
    [
        (b"pomme apple", 'found 1 column in "pomme apple"'),
        (b"pomme\tapple\t1\t2", "found 4 columns"),
        (b"pomme\t ", "expected a source word, a tab and its translation"),
        (b"", 'found 1 column in ""'),
        (b"chat\tcats", 'found "chat" twice'),
        (b"caf\xe9\tcoffee", "found bytes that are not UTF-8 (0xe9 in"),
    ],
)
def test_a_malformed_line_is_reported(tmp_path, line, message):
    (tmp_path / "words").write_bytes(b"chat\tcat\n" + line + b"\n")
    with pytest.raises(InputError, match="words, line 2: ") as error:
        read_dictionary(tmp_path / "words")
    assert message in str(error.value)


def test_escapes_are_taken_off(tmp_path):
    (tmp_path / "words").write_text("R&amp;D\tl&apos;R&amp;D\n")
    assert read_dictionary(tmp_path / "words") == {"R&D": "l'R&D"}


def test_the_error_names_the_encoding_flag_only_if_the_user_can_declare_it(tmp_path):
    (tmp_path / "words").write_bytes(b"caf\xe9\tcoffee\n")
    with pytest.raises(InputError, match="words, line 1: found bytes .*; convert the file to UTF-8.$"):
        read_dictionary(tmp_path / "words", can_declare=False)
