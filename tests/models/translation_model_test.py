"""The registry of models."""

import pytest

from keras_encdec.models import RNNEncoderDecoder, model_class, register_model


class OtherModel(RNNEncoderDecoder):
    """A model of the same configuration."""


def test_the_name_of_another_model_is_refused():
    with pytest.raises(ValueError, match="architecture 'encdec' registered already .*RNNEncoderDecoder"):
        register_model("encdec")(OtherModel)
    with pytest.raises(ValueError, match="found the architecture 'cslm' registered already"):
        register_model("cslm")(OtherModel)
    assert model_class("encdec") is RNNEncoderDecoder
