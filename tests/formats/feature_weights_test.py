"""Tests of writing weights to files."""

from keras_encdec.formats import read_weights
from keras_encdec.formats.feature_weights import weights_text


def test_a_file_of_weights_is_read_as_it_was_written(tmp_path):
    weights = {"LM0": [0.5], "TM0": [-1e-7, 0.123456789]}
    (tmp_path / "weights").write_text(weights_text(weights, "mert, seed 1"))
    assert read_weights(tmp_path / "weights") == {"LM0": [0.5], "TM0": [-1e-7, 0.123457]}
