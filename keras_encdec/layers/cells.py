"""The registry of recurrent cells: names, as configurations give them, and classes."""

from collections.abc import Callable

from keras_encdec.configuration import ConfigurationError
from keras_encdec.layers.recurrent_cell import RecurrentCell

_CELLS: dict[str, type[RecurrentCell]] = {}


def register_cell(name: str) -> Callable[[type[RecurrentCell]], type[RecurrentCell]]:
    """Registers a class of cells, by a decorator, so that models can be stacked from it.

    Args:
        name: str. What configurations call it.

    Raises:
        ValueError: for the name of another class.
    """

    def register(cls: type[RecurrentCell]) -> type[RecurrentCell]:
        known = _CELLS.setdefault(name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(
                f"cell {name!r} is {known.__module__}.{known.__qualname__} already; register {cls.__qualname__} "
                "under another name"
            )
        _CELLS[name] = cls
        return cls

    return register


def unregister_cell(name: str) -> None:
    """Takes a class of cells out of the registry.

    Raises:
        KeyError: when there is none of this name.
    """
    del _CELLS[name]


def recurrent_cell_class(name: str) -> type[RecurrentCell]:
    """The class of cells registered under a name.

    Raises:
        ConfigurationError: a ValueError, for another name.
    """
    if name not in _CELLS:
        raise ConfigurationError("found {cell}=%r, expected one of %s", name, ", ".join(map(repr, cell_names())))
    return _CELLS[name]


def cell_names() -> list[str]:
    """The names of all registered cells, in alphabetical order."""
    return sorted(_CELLS)
