"""The registry of recurrent cells: names, as configurations give them, and classes."""

from collections.abc import Callable

from keras_encdec.layers.class_registry import ClassRegistry
from keras_encdec.layers.recurrent_cell import RecurrentCell

_CELLS = ClassRegistry("cell")


def register_cell(name: str) -> Callable[[type[RecurrentCell]], type[RecurrentCell]]:
    """Registers a class of cells, by a decorator, so that models can be stacked from it.

    Args:
        name: str. What configurations call it.

    Raises:
        ValueError: for the name of another class.
    """
    return _CELLS.register(name)


def unregister_cell(name: str) -> None:
    """Takes a class of cells out of the registry.

    Raises:
        KeyError: when there is none of this name.
    """
    _CELLS.unregister(name)


def recurrent_cell_class(name: str) -> type[RecurrentCell]:
    """The class of cells registered under a name.

    Raises:
        ConfigurationError: a ValueError, for another name.
    """
    return _CELLS.find(name)


def cell_names() -> list[str]:
    """The names of all registered cells, in alphabetical order."""
    return _CELLS.names()
