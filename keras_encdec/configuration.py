"""Hyper-parameters declared once: name, type, default, bounds, help, published value and source.

A configuration is a frozen dataclass whose fields are made by `hyperparameter`. Command-line flags, checks and
their messages, presets, `get_config` and the tables in the documentation are all made from these fields.
"""

import dataclasses
import math
import numbers
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self


class ConfigurationError(ValueError):
    """Values of hyper-parameters that cannot be used, or not together.

    Args:
        sentence: str without a full stop. Names of hyper-parameters in it stand in braces, so that a command can put
            its flags there: "found {units}=%r, expected %s".
        *values: what stands for each `%` in it.

    Example:

    >>> error = ConfigurationError("found {tokenize} with {phrase_table}=%s", "table.gz")
    >>> print(error)
    found tokenize with phrase_table=table.gz
    >>> print(error.sentence("--{}".format))
    found --tokenize with --phrase_table=table.gz
    """

    def __init__(self, sentence: str, *values: Any) -> None:
        self._sentence, self._values = sentence, values
        super().__init__(self.sentence(str))

    def sentence(self, name: Callable[[str], str]) -> str:
        """The sentence with each hyper-parameter called what `name` makes of its name."""
        return re.sub(r"\{(\w+)\}", lambda match: name(match[1]), self._sentence) % self._values

    def __reduce__(self) -> tuple[type, tuple]:
        """As it is made, so that another process raises the same error."""
        return type(self), (self._sentence, *self._values)


@dataclasses.dataclass(frozen=True)
class Published:
    """A value that a publication gives for a hyper-parameter.

    Attributes:
        value: the value.
        source: str. Where it stands, such as "Cho et al., 2014, section 4.1".
    """

    value: Any
    source: str


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    """What is known of one field of a configuration.

    Attributes:
        name: str.
        type: `int`, `float`, `bool`, `str` or `tuple`, without "or `None`".
        default: the default value.
        help: str. One sentence.
        optional: bool. Whether `None` is a value, for "not set".
        minimum: smallest value that is allowed; `None` for no bound.
        maximum: largest value that is allowed; `None` for no bound.
        above: value that must be exceeded; `None` for no bound.
        choices: tuple of the values that are allowed; empty for any.
        published: tuple of Published.
        fixed: bool. Whether a training that goes on must have the value it began with.
        item_type: `int`, `float` or `str`, that of a tuple's items; the bounds are those of the items.
    """

    name: str
    type: type
    default: Any
    help: str
    optional: bool = False
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    choices: tuple = ()
    published: tuple[Published, ...] = ()
    fixed: bool = False
    item_type: type = str

    @property
    def expectation(self) -> str:
        """What values are allowed, for error messages and tables: "a whole number, 1 or more"."""
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        lists = {int: "whole numbers", float: "numbers", str: "texts"}
        kind = f"{lists[self.item_type]} in a list" if self.type is tuple else kinds[self.type]
        above, minimum, maximum = (
            bound if bound is None or isinstance(bound, int) else f"{bound:g}"
            for bound in (self.above, self.minimum, self.maximum)
        )
        bounds = []
        if above is not None:
            bounds.append(f"above {above}")
        if minimum is not None and maximum is not None:
            bounds.append(f"{minimum} to {maximum}")
        elif minimum is not None:
            bounds.append(f"{minimum} or more")
        elif maximum is not None:
            bounds.append(f"{maximum} or less")
        return ", ".join([kind, *bounds])

    def check(self, value: Any) -> Any:
        """Returns the value, a whole number as a float where floats are meant, or raises.

        Raises:
            ConfigurationError: a ValueError, `found units=0, expected a whole number, 1 or more`.
        """
        if value is None and self.optional:
            return value
        if self.type is tuple:
            items = value if isinstance(value, (tuple, list)) else [None]
            checked = tuple(_converted(item, self.item_type) for item in items)
            fits = all(self._fits(item, self.item_type) for item in checked)
        else:
            checked = _converted(value, self.type)
            fits = self._fits(checked, self.type)
        if not fits:
            raise ConfigurationError(f"found {{{self.name}}}=%r, expected %s", value, self.expectation)
        return checked

    def _fits(self, value, kind):
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if fits and kind in (int, float):
            fits = (
                (abs(value) <= sys.maxsize if kind is int else math.isfinite(value))
                and (self.minimum is None or value >= self.minimum)
                and (self.maximum is None or value <= self.maximum)
                and (self.above is None or value > self.above)
            )
        return fits and (not self.choices or value in self.choices)


def _converted(value, kind):
    """A path as text, a whole number of NumPy as an int, and a whole number as a float where floats are meant."""
    if kind is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if kind is int and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.maxsize:
        return float(value)
    return value


def hyperparameter(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    choices: Sequence[Any] | Callable[[], Sequence[Any]] = (),
    published: Mapping[str, Any] | None = None,
    fixed: bool = False,
) -> Any:
    """Declares a field of a configuration.

    Args:
        default: the default value.
        help: str. One sentence: the flag's help, and the table's in the documentation.
        minimum, maximum: bounds, themselves allowed. Optional.
        above: bound, itself not allowed. Optional.
        choices: the values that are allowed, or a function that returns them, for a registry that grows. Optional.
        published: dict of source to the value that is published there. Optional.
        fixed: bool. Whether a training that goes on must have the value it began with. Defaults to `False`.

    Returns:
        a dataclass field.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Sizes(Configuration):
    ...     units: int = hyperparameter(256, "Hidden units.", minimum=1)
    >>> Sizes(units=0)
    Traceback (most recent call last):
        ...
    keras_encdec.configuration.ConfigurationError: found units=0, expected a whole number, 1 or more
    """
    known = tuple(Published(value, source) for source, value in (published or {}).items())
    about = {"minimum": minimum, "maximum": maximum, "above": above, "choices": choices, "published": known}
    return dataclasses.field(default=default, metadata={"help": help, "fixed": fixed, **about})


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Base of configurations: frozen, checked when made.

    Raises:
        ConfigurationError: a ValueError, for a value of another type or out of bounds, see `Hyperparameter.check`,
            and for values that contradict one another, see `check`.
    """

    def __post_init__(self) -> None:
        for parameter in self.hyperparameters():
            checked = parameter.check(getattr(self, parameter.name))
            object.__setattr__(self, parameter.name, checked)
        self.check()

    def check(self) -> None:
        """Raises ConfigurationError where values contradict one another; subclasses say which."""

    @classmethod
    def hyperparameters(cls) -> Iterator[Hyperparameter]:
        """The declared fields, in their order."""
        hints = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if "help" not in field.metadata:
                continue
            hint, optional = hints[field.name], False
            if isinstance(hint, types.UnionType):
                optional = types.NoneType in typing.get_args(hint)
                hint = next(kind for kind in typing.get_args(hint) if kind is not types.NoneType)
            kind, items = typing.get_origin(hint) or hint, typing.get_args(hint)
            item_type = items[0] if items else str
            choices = field.metadata["choices"]
            about = {**field.metadata, "choices": tuple(choices() if callable(choices) else choices)}
            yield Hyperparameter(field.name, kind, field.default, optional=optional, item_type=item_type, **about)

    @classmethod
    def check_names(cls, values: Mapping[str, Any]) -> None:
        """Raises ConfigurationError for a name that is not a hyper-parameter, with those that are."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                expected = ", ".join(known)
                raise ConfigurationError("found the unknown hyper-parameter %r, expected one of %s", name, expected)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A configuration of named values.

        Raises:
            ConfigurationError: a ValueError, for an unknown name and for values that cannot be used.
        """
        cls.check_names(values)
        return cls(**values)

    @classmethod
    def upgraded(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values that an earlier version of this package may have saved, as this one takes them."""
        return dict(values)

    def to_dict(self) -> dict[str, Any]:
        """The values by name, as `from_dict` takes them and JSON holds them."""
        return {parameter.name: getattr(self, parameter.name) for parameter in self.hyperparameters()}

    @classmethod
    def combined(cls, options: Self | None, values: Mapping[str, Any]) -> Self:
        """Options, with other values of some of them: what a task makes of its `options` and its keywords.

        Args:
            options: a configuration; `None` for the defaults.
            values: dict of name to value.

        Raises:
            ConfigurationError: see `from_dict`.
        """
        return (options or cls()).replace(**values) if values else options or cls()

    def replace(self, **values: Any) -> Self:
        """The same configuration with other values of some hyper-parameters."""
        self.check_names(values)
        return dataclasses.replace(self, **values)
