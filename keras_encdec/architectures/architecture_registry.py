"""The registry of architectures: the models that can be trained, by name, without Keras."""

import dataclasses

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
    """A model's name and configuration, for commands before Keras is imported; `model_class` finds its class.

    Attributes:
        name: str. What `encdec-train --architecture`, presets and model directories call the model.
        config: the class of its hyper-parameters, a subclass of `Configuration`.
        has_source: bool. Whether the model reads a source; a language model does not. Defaults to `True`.
    """

    name: str
    config: type[Configuration]
    has_source: bool = True


_ARCHITECTURES: Registry[Architecture] = Registry("architecture")


def register_architecture(architecture: Architecture) -> Architecture:
    """Makes an architecture known to the training command, its flags and presets.

    `keras_encdec.models.register_model` calls this function. Call it yourself only if the model's flags have to be
    known before Keras is imported. Registering the same architecture again changes nothing.

    Raises:
        ValueError: for a name that another architecture has.
    """
    return _ARCHITECTURES.register(architecture.name, architecture)


def unregister_architecture(name: str) -> None:
    """Removes an architecture from the registry.

    Raises:
        KeyError: for a name that is not registered.
    """
    _ARCHITECTURES.unregister(name)


def architecture(name: str) -> Architecture:
    """Returns the architecture registered under a name.

    Raises:
        ConfigurationError: a ValueError, for a name that is not registered.
    """
    return _ARCHITECTURES.find(name)


def architecture_names() -> list[str]:
    """Returns the names of the registered architectures, in the order of their registration."""
    return list(_ARCHITECTURES)


register_architecture(Architecture("encdec", RNNEncoderDecoderConfig))
register_architecture(Architecture("recurrent", RecurrentEncoderDecoderConfig))
register_architecture(Architecture("language_model", RecurrentLanguageModelConfig, has_source=False))
register_architecture(Architecture("cslm", FeedForwardLanguageModelConfig, has_source=False))
