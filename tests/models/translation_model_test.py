"""The registry of models, and the calls that score."""

import dataclasses
import inspect

import keras
import numpy as np
import pytest
from layer_checks import numpy
from recurrent_toys import SIZES, padded, stirred

from keras_encdec.architectures.architecture_registry import ARCHITECTURES, architecture
from keras_encdec.configuration import Configuration
from keras_encdec.decoding import Generator
from keras_encdec.layers import RNNCell
from keras_encdec.models import (
    RecurrentLanguageModel,
    RNNEncoderDecoder,
    build_model,
    model_class,
    register_model,
    to_symbols,
)
from keras_encdec.models.rnn_encoder_decoder import RNNDecoder, RNNEncoder
from keras_encdec.models.translation_model import MODELS, EncoderDecoder
from keras_encdec.scoring import Scorer


class OtherModel(RNNEncoderDecoder):
    """Another model with the same configuration."""


def test_the_name_of_another_model_is_refused():
    with pytest.raises(ValueError, match="architecture 'encdec' registered already .*RNNEncoderDecoder"):
        register_model("encdec")(OtherModel)
    with pytest.raises(ValueError, match="found the architecture 'cslm' registered already"):
        register_model("cslm")(OtherModel)
    assert model_class("encdec") is RNNEncoderDecoder
    with pytest.raises(ValueError, match=r"found the architecture <class .*RNNEncoder'>, expected a subclass of "):
        register_model("mine")(RNNEncoder)
    with pytest.raises(ValueError, match=r"OtherModel'> in place of the name of a new architecture, expected a text"):
        register_model(OtherModel)


def test_a_registered_model_can_be_loaded(tmp_path):
    class Mine(RNNEncoderDecoder):
        """Without `keras.saving.register_keras_serializable`, and in no module that Keras could import."""

    try:
        model = register_model("mine")(Mine)(3, 4, embedding_dim=2, units=2, maxout_units=2, output_rank=2)
        model.save(tmp_path / "mine.keras")
        assert type(keras.saving.load_model(tmp_path / "mine.keras")) is Mine
    finally:
        MODELS.unregister("mine")
        ARCHITECTURES.unregister("mine")


def test_a_model_and_its_configuration_may_be_defined_again():
    def defined():
        @dataclasses.dataclass(frozen=True)
        class NotebookConfig(Configuration):
            """No hyper-parameters."""

        class NotebookModel(RNNEncoderDecoder):
            config_class = NotebookConfig

        return register_model("notebook")(NotebookModel)

    try:
        first, second = defined(), defined()
        assert first is not second and model_class("notebook") is second
        assert architecture("notebook").config is second.config_class
    finally:
        MODELS.unregister("notebook")
        ARCHITECTURES.unregister("notebook")


@pytest.mark.parametrize("function", [Generator, Scorer, to_symbols])
@pytest.mark.parametrize("other", ["model", keras.Sequential()])
def test_an_object_without_encoder_and_decoder_is_refused(function, other):
    with pytest.raises(ValueError, match="found .*, expected a model with an encoder and a decoder; .* of a directory"):
        function(other)


class UnbuiltModel(RNNEncoderDecoder):
    """A model whose constructor does not call `build`, and may leave out the encoder."""

    def __init__(self, encoder_ids=None, decoder_ids=7):
        EncoderDecoder.__init__(self, 3, 4)
        self.decoder = RNNDecoder(decoder_ids, 2, 2, 2, 2)
        if encoder_ids is not None:
            self.encoder = RNNEncoder(encoder_ids, 2, 2)


def test_an_incomplete_model_is_refused():
    with pytest.raises(NotImplementedError, match="found UnbuiltModel without encoder, expected a class that defines"):
        UnbuiltModel().build()
    with pytest.raises(ValueError, match=r"found UnbuiltModel without weights, expected self.build\(\) at the end of "):
        Generator(UnbuiltModel(6))
    with pytest.raises(ValueError, match="found the encoder with 3 ids for 3 words, expected 6 ids: the words and 3 "):
        UnbuiltModel(3).build()
    with pytest.raises(ValueError, match="found the decoder with 4 ids for 4 words, expected 7 ids"):
        UnbuiltModel(6, 4).build()
    UnbuiltModel(6).build()


def test_dtype_policies_of_parts_are_saved():
    policies = keras.dtype_policies.DTypePolicyMap(default_policy="float32")
    policies["parts/encoder"] = keras.DTypePolicy("mixed_bfloat16")
    model = RecurrentLanguageModel(7, name="parts", dtype=policies, **SIZES)
    loaded = keras.models.model_from_json(model.to_json())
    assert (loaded.encoder.compute_dtype, loaded.decoder.compute_dtype) == ("bfloat16", "float32")


@pytest.mark.usefixtures("eager")
@pytest.mark.filterwarnings("ignore:Skipping variable loading")
def test_training_goes_on_with_frozen_layers_and_the_state_of_the_optimizer(tmp_path):
    """As the guide says: a saved model does not keep which layers are frozen."""

    def compiled(model):
        model.decoder.embedding.trainable = False
        model.compile(keras.optimizers.Adam(0.1))
        return model

    target = {"target": padded([[3, 4, 2], [5, 2]])}
    model = compiled(stirred(RecurrentLanguageModel(7, **SIZES)))
    model.train_on_batch(target)
    model.save(tmp_path / "model.keras")
    again = compiled(keras.saving.load_model(tmp_path / "model.keras"))
    again.optimizer.build(again.trainable_variables)
    again.load_weights(tmp_path / "model.keras")
    for each in (model, again):
        each.train_on_batch(target)
    for weight, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, atol=1e-5)


class CountedModel(RecurrentLanguageModel):
    """Counts how often it is traced, or called if nothing is traced."""

    calls = 0

    def call(self, inputs, training=None):
        self.calls += 1
        return super().call(inputs, training)


def test_scores_of_one_shape_are_compiled_once_if_at_all_and_follow_the_weights():
    model = stirred(CountedModel(7, **SIZES))
    target = padded([[3, 4, 2]], width=12)
    before = numpy(model.score(target))
    np.testing.assert_allclose(before, numpy(model({"target": target})).sum(axis=1), atol=1e-5)
    stirred(model, seed=1)
    model.calls = 0
    after = numpy(model.score(target))
    assert model.calls == (0 if keras.backend.backend() == "jax" else 1)
    assert abs(after - before).max() > 0.01
    np.testing.assert_allclose(after, numpy(model.token_log_probs(target)).sum(axis=1), atol=1e-5)


def test_weights_that_a_layer_does_not_name_are_refused_by_symbols(monkeypatch):
    model = RecurrentLanguageModel(3, units=2, embedding_dim=2, cell="rnn")
    assert to_symbols(model)
    monkeypatch.setattr(RNNCell, "symbols", lambda self: {})
    with pytest.raises(ValueError, match=r"found weights without symbols, \S+/rnn_cell\S*/kernel, .*; define symbols"):
        to_symbols(model)


RNN = {"embedding_dim": 3, "units": 4, "initial_stddev": 0.5}
RECURRENT = {"embedding_dim": 3, "units": 4, "cell": "gru", "dropout": 0.2, "initial_scale": 0.3}
LOCAL = {"attention": "local_p", "attention_score": "concat", "attention_units": 3, "input_feeding": False}
HYBRID = {"attention": "global", "characters": "both", "character_units": 5, "character_layers": 2}


@pytest.mark.parametrize(
    "name, choices",
    [
        ("encdec", {**RNN, "maxout_units": 2, "output_rank": 5, "reset_after": True}),
        ("recurrent", {**RECURRENT, **LOCAL, "layers": 2, "bidirectional": "concat", "reverse_source": True}),
        ("recurrent", {**RECURRENT, **LOCAL, "condition": "context"}),
        ("recurrent", {**RECURRENT, **HYBRID}),
        ("cslm", {"ngram_order": 4, "embedding_dim": 3, "hidden_units": (4, 5), "dropout": 0.2, "initial_scale": 0.3}),
    ],
)
def test_the_parts_of_a_model_can_be_rebuilt_from_their_configurations(name, choices):
    model = build_model(name, 5, 6, **choices)
    sides = [model.encoder, model.decoder] if model.has_source else [model.decoder]
    for part in (*sides, model.encoder.reader, model.decoder.speller):
        if part is None:
            continue
        config = part.get_config()
        again = type(part).from_config(config)
        again.build()
        assert again.get_config() == config
        assert [weight.shape for weight in again.weights] == [weight.shape for weight in part.weights]
        classes = [cls for cls in type(part).__mro__ if cls.__module__.startswith("keras_encdec.")]
        arguments = {name for cls in classes for name in inspect.signature(cls.__init__).parameters}
        of_keras = inspect.signature(keras.layers.Layer.__init__).parameters.keys()
        assert arguments - of_keras - {"args"} <= config.keys() | {"reader", "speller"}
