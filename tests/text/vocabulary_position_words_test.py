"""Position words, which give the distance of an unknown word from its source word."""

import pytest

from keras_encdec.text.vocabulary import POSITION_WORDS, is_position_word, position_distance, position_word_indices


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
