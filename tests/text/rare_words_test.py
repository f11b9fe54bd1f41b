"""Position words, which give the distance of an unknown word from its source word, and dictionaries."""

import pytest

from keras_encdec.errors import InputError
from keras_encdec.text.rare_words import (
    POSITION_WORDS,
    is_position_word,
    position_distance,
    position_word_indices,
    read_dictionary,
)


def test_there_are_sixteen_position_words():
    assert POSITION_WORDS[0] == "unkpos_-7" and POSITION_WORDS[14:] == ("unkpos_7", "unkpos_null")
    assert len(set(POSITION_WORDS)) == 16 and all(map(is_position_word, POSITION_WORDS))
    assert [position_distance(word) for word in POSITION_WORDS] == [*range(-7, 8), None]
    assert not any(map(is_position_word, ("<unk>", "unkpos", "unkpos_", "unkpos_x", "xunkpos_0", "unkpos_1\n")))


@pytest.mark.parametrize(
    "links, expected",
    [
        ([], ["null", "null", "null"]),
        ([(0, 0), (3, 1), (0, 2)], ["0", "-2", "2"]),
        ([(7, 0), (8, 1), (10, 2)], ["-7", "-7", "null"]),
        # The nearest of several source words is used, or the first of two at the same distance, in any order of links.
        ([(9, 1), (3, 1), (0, 2), (1, 2), (8, 0), (2, 0)], ["-2", "-2", "1"]),
        ([(2, 1), (0, 1), (3, 2), (1, 2)], ["null", "1", "1"]),
        ([(0, 1), (2, 1)], ["null", "1", "null"]),
    ],
)
def test_a_word_names_the_distance_to_the_nearest_source_word(links, expected):
    indices = position_word_indices(links, 3)
    assert [POSITION_WORDS[index].removeprefix("unkpos_") for index in indices] == expected


def test_seven_positions_after_is_near_enough_and_eight_is_not():
    indices = position_word_indices([(0, 7), (0, 8)], 9)
    assert [POSITION_WORDS[index] for index in indices[7:]] == ["unkpos_7", "unkpos_null"]


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
