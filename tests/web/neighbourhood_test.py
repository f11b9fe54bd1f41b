import shutil

import keras
import numpy as np
import pytest
from toy_explorer import PHRASES
from toy_models import SOURCE_WORDS, TARGET_WORDS, save_model
from toy_report import SOURCES, write_table

from keras_encdec.data.prepare import prepare
from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.web import known_phrases
from keras_encdec.web.neighbourhood import Neighbourhood


@pytest.fixture
def directory(tmp_path):
    return ModelDirectory.load(save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS), weights=False)


def test_known_phrases_of_the_training_data_have_no_unknown_words(directory):
    assert known_phrases(directory) == []
    words = [f"{one} {other}".split() for one in SOURCE_WORDS for other in SOURCE_WORDS] + [["le", "chien"]]
    pairs = [(source, target) for source in words for target in (["the"], ["cat"])]
    prepare(pairs, directory.path / "prepared", vocabularies=(directory.source_vocabulary, directory.target_vocabulary))
    found = known_phrases(directory)
    assert sorted(found) == sorted(" ".join(source) for source in words[:-1])
    few = known_phrases(directory, size=10)
    assert len(set(few)) == 10 and few == known_phrases(directory, size=10)
    shutil.rmtree(directory.path / "prepared")


def test_known_phrases_of_a_table_have_no_escapes(directory, tmp_path):
    table = write_table(tmp_path / "table")
    found = known_phrases(directory, table)
    assert len(found) == len(SOURCES) and {"le chat <b> R&D", "|"} < set(found)
    assert len(known_phrases(directory, table, size=3)) == 3


def test_known_phrases_of_a_table_are_those_of_the_side_that_the_model_reads(model_dirs, tmp_path):
    (tmp_path / "table").write_text("le chat ||| the cat ||| 1 1 1 1\nla maison ||| the house ||| 1 1 1 1\n")
    reverse = ModelDirectory.load(model_dirs / "reverse", weights=False)
    assert known_phrases(reverse, tmp_path / "table") == ["the cat", "the house"]


def test_known_phrases_of_a_text_are_its_lines(directory, tmp_path):
    (tmp_path / "text").write_text("le chat\n\nle chat\nla &lt;b&gt;\n")
    assert known_phrases(directory, input=tmp_path / "text") == ["le chat", "la <b>"]
    with pytest.raises(InputError, match="none"):
        known_phrases(directory, input=tmp_path / "none")


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="nothing is compiled")
def test_requests_of_similar_length_are_compiled_once(model_dirs, monkeypatch):
    directory = ModelDirectory.load(model_dirs / "forward")
    kind, traced = type(directory.model.encoder), []
    call = kind.call
    monkeypatch.setattr(kind, "call", lambda self, source: (traced.append(source.shape), call(self, source))[1])
    neighbourhood = Neighbourhood(directory, PHRASES)
    for step in neighbourhood.steps():
        step()
    traced.clear()
    for question in ("le chat", "la", "la maison la"):
        [(_, similarity), *_] = neighbourhood.nearest(question.split(), 2)
        assert np.isfinite(similarity)
    assert len(traced) == 1
