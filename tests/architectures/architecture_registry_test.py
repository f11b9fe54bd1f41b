"""The architectures, and the models that belong to them."""

import os

import pytest

from keras_encdec.architectures.architecture_registry import ARCHITECTURES, architecture_names, load_preset
from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.models import RNNEncoderDecoder, build_model, model_class, register_model
from keras_encdec.models.translation_model import MODELS


class OtherModel(RNNEncoderDecoder):
    """A model of the same configuration."""


def test_every_architecture_has_a_model_of_its_configuration():
    for name in architecture_names():
        assert model_class(name).config_class.__name__ == f"{model_class(name).__name__}Config"


def test_a_pipe_is_not_a_preset(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: found a pipe, expected a file, because it is read more than once"):
        load_preset(tmp_path / "pipe")


def test_a_registered_model_is_an_architecture_until_it_is_removed():
    assert register_model("other")(OtherModel) is OtherModel
    assert "other" in architecture_names()
    model = build_model("other", 4, 5, embedding_dim=2, units=3, maxout_units=2, output_rank=2)
    assert type(model) is OtherModel and (model.source_words, model.target_words) == (4, 5)
    for registry in (MODELS, ARCHITECTURES):
        registry.unregister("other")
    assert "other" not in architecture_names()
    with pytest.raises(ConfigurationError, match="found architecture='other', expected one of .*encdec"):
        model_class("other")
