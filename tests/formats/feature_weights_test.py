"""Tests of writing weights to files and to a moses.ini."""

import pytest

from keras_encdec.errors import InputError
from keras_encdec.formats import read_nbest_weights, read_weights
from keras_encdec.formats.feature_weights import replace_moses_weights, weights_text

WEIGHTS = {"LM0": [0.5], "TM0": [-1e-7, 0.123456789]}


def test_a_file_of_weights_is_read_as_it_was_written(tmp_path):
    (tmp_path / "weights").write_text(weights_text(WEIGHTS, "mert, seed 1"))
    assert read_weights(tmp_path / "weights") == {"LM0": [0.5], "TM0": [-1e-7, 0.123457]}


def test_only_weights_in_their_section_are_replaced():
    text = "[feature]\nKENLM name=LM0\nLM0= 9\n[weight]\n\t LM0=  1 2  # LM0= 1 2\r\n\nTM0=1\nOther0= 3\n[x]\nTM0= 4\n"
    expected = text.replace("LM0=  1 2  #", "LM0= 0.5  #").replace("TM0=1\n", "TM0= -1e-07 0.123457\n")
    assert replace_moses_weights(text, WEIGHTS) == expected


def test_values_that_moses_does_not_tune_are_left_out_of_lists_and_keep_their_weights(tmp_path):
    text = (
        "[feature]\nTable name=TM0 num-features=3 tuneable-components=1,0,true\nKENLM name=LM0\n"
        "Table name=TM1 tuneable-components=0\n[weight]\nLM0= 0.5\nTM0= 1 2 3 # all\nTM1= 4\n"
    )
    (tmp_path / "ini").write_text(text)
    assert read_weights(tmp_path / "ini") == {"LM0": [0.5], "TM0": [1, 2, 3], "TM1": [4]}
    weights, unlisted = read_nbest_weights(tmp_path / "ini")
    assert weights == {"LM0": [0.5], "TM0": [1, 3], "TM1": [4]} and unlisted == {"TM1", "UnknownWordPenalty0"}
    expected = text.replace("LM0= 0.5", "LM0= 6").replace("TM0= 1 2 3", "TM0= 7 2 8")
    assert replace_moses_weights(text, {"LM0": [6.0], "TM0": [7.0, 8.0]}) == expected
    assert "TM0= 7 8 9 # all" in replace_moses_weights(text, {"TM0": [7.0, 8.0, 9.0]})


def test_features_without_weights_are_named():
    with pytest.raises(InputError, match=r"x.ini: found no weights of LM0, R0 in \[weight\], expected weights of all"):
        replace_moses_weights("[feature]\nLM0= 1\n[weight]\nTM0= 1\n", {**WEIGHTS, "R0": [1]}, "x.ini")
