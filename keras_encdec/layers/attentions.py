"""The registry of kinds of attention: names, as configurations give them, and classes."""

from collections.abc import Callable

from keras_encdec.configuration import ConfigurationError
from keras_encdec.layers.attention import Attention

_ATTENTIONS: dict[str, type[Attention]] = {}


def register_attention(name: str) -> Callable[[type[Attention]], type[Attention]]:
    """Registers a kind of attention, by a decorator on its class, so that models can have it.

    Args:
        name: str. What configurations call it.

    Raises:
        ValueError: for the name of another class.
    """

    def register(cls: type[Attention]) -> type[Attention]:
        known = _ATTENTIONS.setdefault(name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(
                f"attention {name!r} is {known.__module__}.{known.__qualname__} already; register "
                f"{cls.__qualname__} under another name"
            )
        _ATTENTIONS[name] = cls
        return cls

    return register


def attention_class(name: str) -> type[Attention]:
    """The class registered under a name.

    Raises:
        ConfigurationError: a ValueError, for another name.
    """
    if name not in _ATTENTIONS:
        expected = ", ".join(map(repr, ["none", *attention_names()]))
        raise ConfigurationError("found {attention}=%r, expected one of %s", name, expected)
    return _ATTENTIONS[name]


def attention_names() -> list[str]:
    """The names of all registered kinds of attention, in alphabetical order."""
    return sorted(_ATTENTIONS)
