"""A registry of classes by the names that they have in configurations."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from keras_encdec.configuration import ConfigurationError

Class = TypeVar("Class", bound=type)


class ClassRegistry:
    """Classes of one kind by name.

    Args:
        kind: str. The name of the hyper-parameter that selects one of them, such as "cell".
        others: further values of this hyper-parameter, such as "none". Defaults to no others.
    """

    def __init__(self, kind: str, others: Sequence[str] = ()) -> None:
        self._kind, self._others = kind, list(others)
        self._classes: dict[str, type] = {}

    def register(self, name: str) -> Callable[[Class], Class]:
        """A decorator that registers a class; a class that is defined again replaces its former definition.

        Raises:
            ValueError: for a name that another class has.
        """

        def register(cls: Class) -> Class:
            known = self._classes.setdefault(name, cls)
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ValueError(
                    f"{self._kind} {name!r} is {known.__module__}.{known.__qualname__} already; register "
                    f"{cls.__qualname__} under another name"
                )
            self._classes[name] = cls
            return cls

        return register

    def unregister(self, name: str) -> None:
        """Removes a class; raises KeyError for a name that is not registered."""
        del self._classes[name]

    def find(self, name: str) -> type:
        """The class of a name; raises ConfigurationError, a ValueError, for a name that is not registered."""
        if name not in self._classes:
            expected = ", ".join(map(repr, [*self._others, *self.names()]))
            raise ConfigurationError(f"found {{{self._kind}}}=%r, expected one of %s", name, expected)
        return self._classes[name]

    def names(self) -> list[str]:
        """The names of all registered classes, in alphabetical order."""
        return sorted(self._classes)
