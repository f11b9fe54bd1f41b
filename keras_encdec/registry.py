"""Registries: what users can add to the package and choose by name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from keras_encdec.configuration import ConfigurationError

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry]):
    """Entries of one kind by name, in the order of their registration.

    Args:
        kind: str. What the entries are: "cell". Errors name them so, and so is the hyper-parameter called that chooses
            one.
        others: names that the hyper-parameter may also have, and that choose no entry: "none". Defaults to no names.

    Example:

    >>> tokenizers = Registry("tokenizer")
    >>> tokenizers.register("spaces", str.split) is str.split
    True
    >>> tokenizers.find("spaces")("a b")
    ['a', 'b']
    >>> tokenizers.find("words")
    Traceback (most recent call last):
        ...
    keras_encdec.configuration.ConfigurationError: found tokenizer=words, expected one of spaces
    """

    def __init__(self, kind: str, others: Sequence[str] = ()) -> None:
        self._kind, self._others = kind, tuple(others)
        self._entries: dict[str, Entry] = {}

    def register(self, name: str, entry: Entry) -> Entry:
        """Makes an entry available by its name.

        An entry that equals the one of this name changes nothing. A class that is defined again, as a notebook does
        when a cell runs a second time, replaces itself.

        Returns:
            the entry, so that a decorator can be made of this method.

        Raises:
            ValueError: when another entry has the name.
        """
        known = self._entries.get(name, entry)
        if known != entry and not _is_defined_again(known, entry):
            raise ValueError(
                f"found the {self._kind} {name!r} registered already ({_described(known)}), expected a new name for "
                f"{_described(entry)}"
            )
        self._entries[name] = entry
        return entry

    def unregister(self, name: str) -> None:
        """Removes an entry.

        Raises:
            KeyError: when no entry has the name.
        """
        del self._entries[name]

    def find(self, name: object) -> Entry:
        """The entry of a name that a user chose.

        Args:
            name: str. Any other value, as a file of settings may have, is an unknown name.

        Raises:
            ConfigurationError: a ValueError, for an unknown name, with the names that can be chosen.
        """
        if not isinstance(name, str) or name not in self._entries:
            expected = ", ".join([*self._others, *self._entries])
            raise ConfigurationError(f"found {{{self._kind}}}=%s, expected one of %s", name, expected)
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
    """The module and name of an entry, or of its class."""
    described = entry if isinstance(entry, type) else type(entry)
    return f"{described.__module__}.{described.__qualname__}"
