"""Neighbours of phrases, and what is computed to find them."""

import keras
import numpy as np
import pytest
from toy_explorer import PHRASES

from keras_encdec.model_directory import ModelDirectory
from keras_encdec.web.neighbourhood import Neighbourhood


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
