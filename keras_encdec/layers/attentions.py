"""The registry of kinds of attention: names, as configurations give them, and classes."""

from collections.abc import Callable

from keras_encdec.layers.attention import Attention
from keras_encdec.layers.class_registry import ClassRegistry

_ATTENTIONS = ClassRegistry("attention", others=["none"])


def register_attention(name: str) -> Callable[[type[Attention]], type[Attention]]:
    """Registers a kind of attention, by a decorator on its class, so that models can have it.

    Args:
        name: str. What configurations call it.

    Raises:
        ValueError: for the name of another class.
    """
    return _ATTENTIONS.register(name)


def unregister_attention(name: str) -> None:
    """Takes a kind of attention out of the registry.

    Raises:
        KeyError: when none is registered under this name.
    """
    _ATTENTIONS.unregister(name)


def attention_class(name: str) -> type[Attention]:
    """The class registered under a name.

    Raises:
        ConfigurationError: a ValueError, for another name.
    """
    return _ATTENTIONS.find(name)


def attention_names() -> list[str]:
    """The names of all registered kinds of attention, in alphabetical order."""
    return _ATTENTIONS.names()
