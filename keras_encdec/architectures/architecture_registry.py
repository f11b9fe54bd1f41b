"""The registry of models: what the training command can train, by name."""

import dataclasses
import importlib
from typing import Any

from keras_encdec.architectures.configurations import (
    FeedForwardLanguageModelConfig,
    RecurrentEncoderDecoderConfig,
    RecurrentLanguageModelConfig,
    RNNEncoderDecoderConfig,
)
from keras_encdec.configuration import Configuration
from keras_encdec.registry import Registry


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A registered model.

    Attributes:
        name: str, as `encdec-train --architecture` takes it.
        config: its configuration, a subclass of `Configuration`.
        model: str, "module:class" of the model, which is imported when it is first used: choosing one needs no Keras.
        has_source: bool. Whether it reads a source; a language model does not.
    """

    name: str
    config: type[Configuration]
    model: str
    has_source: bool = True

    @property
    def model_class(self) -> type:
        """The model's class."""
        module, _, name = self.model.partition(":")
        return getattr(importlib.import_module(module), name)

    def build(self, source_words: int, target_words: int, config: Configuration, **arguments: Any) -> Any:
        """A new model.

        Args:
            source_words, target_words: int. Words in each shortlist; without a source, the first is not used.
            config: of the class `config`.
            **arguments: further ones of the model, such as `dtype`.
        """
        words = (source_words, target_words) if self.has_source else (target_words,)
        return self.model_class(*words, **config.to_dict(), **arguments)


_ARCHITECTURES: Registry[Architecture] = Registry("architecture")


def register_architecture(architecture: Architecture) -> Architecture:
    """Makes a model available by its name to the training command, its flags and presets.

    Raises:
        ValueError: when another model has the name.
    """
    return _ARCHITECTURES.register(architecture.name, architecture)


def unregister_architecture(name: str) -> None:
    """Removes a model from the registry.

    Raises:
        KeyError: when no model has the name.
    """
    _ARCHITECTURES.unregister(name)


def architecture(name: str) -> Architecture:
    """The architecture of a name.

    Raises:
        ConfigurationError: a ValueError, when no architecture has the name.
    """
    return _ARCHITECTURES.find(name)


def architecture_names() -> list[str]:
    """The names of the registered architectures, in the order of their registration."""
    return list(_ARCHITECTURES)


def import_models() -> None:
    """Imports every registered model, so that Keras knows the classes in `.keras` files."""
    for name in architecture_names():
        architecture(name).model_class  # noqa: B018


_MODELS = "keras_encdec.models"
register_architecture(
    Architecture("encdec", RNNEncoderDecoderConfig, f"{_MODELS}.rnn_encoder_decoder:RNNEncoderDecoder")
)
register_architecture(
    Architecture(
        "recurrent", RecurrentEncoderDecoderConfig, f"{_MODELS}.recurrent_encoder_decoder:RecurrentEncoderDecoder"
    )
)
register_architecture(
    Architecture(
        "language_model",
        RecurrentLanguageModelConfig,
        f"{_MODELS}.recurrent_encoder_decoder:RecurrentLanguageModel",
        has_source=False,
    )
)
register_architecture(
    Architecture(
        "cslm",
        FeedForwardLanguageModelConfig,
        f"{_MODELS}.feed_forward_language_model:FeedForwardLanguageModel",
        has_source=False,
    )
)
