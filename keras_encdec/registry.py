"""Registries: what users can add to the package and choose by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from keras_encdec.configuration import UnknownChoiceError

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry]):
    """Entries of one kind by name, in the order in which they were registered.

    Args:
        kind: str. What the entries are, such as "cell". The hyper-parameter that chooses an entry has the same name.
        others: other values of that hyper-parameter, which choose no entry, such as "none". Defaults to no values.
        expected: names of entries that a module registers when it is imported, so that they can be listed before.
            Defaults to no names.
        defined_by: function that returns what a user defines to make an entry, a class. Defaults to the entry itself.

    Example:

    >>> tokenizers = Registry("tokenizer")
    >>> tokenizers.register("spaces", str.split) is str.split
    True
    >>> tokenizers.find("spaces")("a b")
    ['a', 'b']
    >>> tokenizers.find("words")
    Traceback (most recent call last):
        ...
    keras_encdec.configuration.UnknownChoiceError: found tokenizer='words', expected one of spaces
    """

    def __init__(
        self,
        kind: str,
        others: Sequence[str] = (),
        expected: Sequence[str] = (),
        defined_by: Callable[[Entry], object] = lambda entry: entry,
    ) -> None:
        self._kind, self._others, self._expected = kind, tuple(others), tuple(expected)
        self._defined_by = defined_by
        self._entries: dict[str, Entry] = {}

    def register(self, name: str, entry: Entry) -> Entry:
        """Makes an entry available by its name.

        Registering an equal entry again has no effect. A class that is defined again, as when a cell of a notebook runs
        a second time, replaces its earlier definition.

        Returns:
            the entry, so that a decorator can return it.

        Raises:
            ValueError: if another entry has the name, and for a name that is empty or not a str.
        """
        self._check_name(name)
        known = self._entries.get(name, entry)
        before, now = self._defined_by(known), self._defined_by(entry)
        if known != entry and not _is_defined_again(before, now):
            raise ValueError(
                f"found the {self._kind} {name!r} registered already ({_described(before)}), expected a new name for "
                f"{_described(now)}"
            )
        self._entries[name] = entry
        return entry

    def decorator(self, name: str, base: type) -> Callable[[Entry], Entry]:
        """Returns a decorator that registers a class.

        Args:
            name: str.
            base: the class of which it must be a subclass.

        Raises:
            ValueError: for a name that is empty or not a str, as in a decorator without its name. The decorator itself
                raises it for a class that is not a subclass of `base`, and as `register` does.
        """
        self._check_name(name)

        def register_class(entry: Entry) -> Entry:
            self.check_subclass(entry, base)
            return self.register(name, entry)

        return register_class

    def check_subclass(self, new_class: object, base: type) -> None:
        """Raises ValueError unless an object is a subclass of a class."""
        if not (isinstance(new_class, type) and issubclass(new_class, base)):
            raise ValueError(f"found the {self._kind} {new_class!r}, expected a subclass of {base.__name__}")

    def _check_name(self, name: object) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"found {name!r} in place of the name of a new {self._kind}, expected a text")

    @property
    def choices(self) -> list[str]:
        """The values of the hyper-parameter: those that choose no entry, and all names of entries."""
        return list(dict.fromkeys([*self._others, *self._expected, *self._entries]))

    def unregister(self, name: str) -> None:
        """Removes an entry.

        Raises:
            KeyError: if no entry has the name.
        """
        del self._entries[name]

    def find(self, name: object) -> Entry:
        """Returns the entry with a name that a user chose.

        Args:
            name: str. A value of another type, which a settings file may contain, is treated as an unknown name.

        Raises:
            UnknownChoiceError: a ValueError, for an unknown name. It lists the names that can be chosen.
        """
        if not isinstance(name, str) or name not in self._entries:
            raise UnknownChoiceError(f"found {{{self._kind}}}=%r, expected one of %s", name, ", ".join(self.choices))
        return self._entries[name]

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _is_defined_again(known: object, entry: object) -> bool:
    return isinstance(known, type) and isinstance(entry, type) and _described(known) == _described(entry)


def _described(entry: object) -> str:
    """Returns the module and name of an entry that is a class, or of the class of any other entry."""
    described = entry if isinstance(entry, type) else type(entry)
    return f"{described.__module__}.{described.__qualname__}"
