"""Tests of reading weights from files and writing them."""

import re
import warnings

import numpy as np
import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.formats import FeatureWeights, read_weights
from keras_encdec.formats.feature_weights import check_weights, weights_text


def test_a_file_of_weights_is_read_as_it_was_written(tmp_path):
    weights = {"LM0": [0.5], "TM0": [-1e-7, 0.123456789], "WT_=~a": [2], "WT_#~#": [3]}
    (tmp_path / "weights").write_text(weights_text(weights, "mert, seed 1") + "LM1= 1 # 2\n")
    read = {**weights, "TM0": [-1e-7, 0.123457], "LM1": [1]}
    assert read_weights(tmp_path / "weights") == read


INI = "[weight]\nLM0= 0.5\nWT_b~c= 3\n[weight-file] # sparse\nsparse # weights\n"


def test_weights_of_sparse_features_are_read_from_the_weight_file(tmp_path, monkeypatch):
    """Moses reads the file in the working directory, and lets [weight] overrule it."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "moses.ini").write_text(INI)
    (tmp_path / "models" / "sparse").write_text("# tuned\nWT_a~b\t5 \r\n\nWT_b~c 1\nWT_#~== -1e-3\nWT_c~d= 2\n")
    weights = {"LM0": [0.5], "WT_a~b": [5], "WT_b~c": [3], "WT_#~=": [-0.001], "WT_c~d": [2]}
    assert read_weights(tmp_path / "models" / "moses.ini") == weights
    (tmp_path / "sparse").write_text("WT_a~= 7\n")
    monkeypatch.chdir(tmp_path)
    assert read_weights("models/moses.ini") == {"LM0": [0.5], "WT_b~c": [3], "WT_a~=": [7]}


def test_a_weight_file_that_cannot_be_used_is_reported(tmp_path):
    (tmp_path / "moses.ini").write_text(INI)
    with pytest.raises(InputError, match=r'moses.ini, line 5: found the \[weight-file\] "sparse", expected a file in'):
        read_weights(tmp_path / "moses.ini")
    for line in ("WT_a", "WT_a x", "WT_a 1 2", "LM0 1", "WT_b 2"):
        (tmp_path / "sparse").write_text(f"WT_b 1\n{line}\n")
        with pytest.raises(InputError, match=re.escape(f'{tmp_path}/sparse, line 2: found "{line}", expected a new ')):
            read_weights(tmp_path / "moses.ini")
    (tmp_path / "moses.ini").write_text(f"{INI}other\n")
    with pytest.raises(InputError, match=r"moses.ini, line 6: found a second file in \[weight-file\], expected one"):
        read_weights(tmp_path / "moses.ini")


def test_sparse_features_without_any_weight_give_one_warning():
    features = {"LM0": [1.0], "WT_a": [1.0]}
    weights = FeatureWeights({"LM0": [0.5]})
    with pytest.warns(EncdecWarning, match="list: found sparse features without weights, such as WT_a") as caught:
        assert [weights.total(features, "list") for _ in range(2)] == [0.5, 0.5]
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert FeatureWeights({"LM0": [0.5], "WT_b": [0]}).total(features) == 0.5


def test_weights_that_are_not_a_list_of_numbers_are_reported():
    check_weights({"LM0": (1, 0.5), "TM0": np.float32([0.25])})
    for values, shown in ((0.3, "0.3"), ("0.3", "'0.3'"), (["0.3"], r"\['0.3'\]"), (None, "None")):
        with pytest.raises(ConfigurationError, match=f"found the weights {shown} of LM0, expected a list of numbers"):
            check_weights({"LM0": values})
