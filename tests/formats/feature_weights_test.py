"""Tests of writing weights to files and to a moses.ini."""

import pytest

from keras_encdec.errors import InputError
from keras_encdec.formats import read_weights
from keras_encdec.formats.feature_weights import replace_moses_weights, weights_text

WEIGHTS = {"LM0": [0.5], "TM0": [-1e-7, 0.123456789]}


def test_a_file_of_weights_is_read_as_it_was_written(tmp_path):
    (tmp_path / "weights").write_text(weights_text(WEIGHTS, "mert, seed 1"))
    assert read_weights(tmp_path / "weights")[0] == {"LM0": [0.5], "TM0": [-1e-7, 0.123457]}


def test_only_weights_in_their_section_are_replaced():
    text = "[feature]\nKENLM name=LM0\nLM0= 9\n[weight]\n\t LM0=  1 2  # LM0= 1 2\r\n\nTM0=1\nOther0= 3\n[x]\nTM0= 4\n"
    expected = text.replace("LM0=  1 2  #", "LM0= 0.5  #").replace("TM0=1\n", "TM0= -1e-07 0.123457\n")
    assert replace_moses_weights(text, WEIGHTS) == expected


def test_features_without_weights_are_named():
    with pytest.raises(InputError, match=r"x.ini: found no weights of LM0, R0 in \[weight\], expected weights of all"):
        replace_moses_weights("[feature]\nLM0= 1\n[weight]\nTM0= 1\n", {**WEIGHTS, "R0": [1]}, "x.ini")
