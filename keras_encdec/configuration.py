"""Hyper-parameters declared once: name, type, default, bounds, help, published value and source.

A configuration is a frozen dataclass whose fields are made by `hyperparameter`. Command-line flags, checks and
their messages, presets, `get_config` and the tables in the documentation are all made from these fields.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Self


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
        type: `int`, `float`, `bool`, `str` or `tuple` (of str), without "or `None`".
        default: the default value.
        help: str. One sentence.
        optional: bool. Whether `None` is a value, for "not set".
        minimum: smallest value that is allowed; `None` for no bound.
        maximum: largest value that is allowed; `None` for no bound.
        above: value that must be exceeded; `None` for no bound.
        choices: tuple of the values that are allowed; empty for any.
        published: tuple of Published.
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

    @property
    def expectation(self) -> str:
        """What values are allowed, for error messages and tables: "a whole number, 1 or more"."""
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        kind = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list"}
        bounds = []
        if self.above is not None:
            bounds.append(f"above {self.above:g}")
        if self.minimum is not None and self.maximum is not None:
            bounds.append(f"{self.minimum:g} to {self.maximum:g}")
        elif self.minimum is not None:
            bounds.append(f"{self.minimum:g} or more")
        elif self.maximum is not None:
            bounds.append(f"{self.maximum:g} or less")
        return ", ".join([kind[self.type], *bounds])

    def check(self, value: Any) -> Any:
        """Returns the value, a whole number as a float where floats are meant, or raises.

        Raises:
            ValueError: `found units=0, expected a whole number, 1 or more`.
        """
        if value is None and self.optional:
            return value
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if self.type is tuple and isinstance(value, list):
            value = tuple(value)
        fits = isinstance(value, self.type) and (self.type is bool or not isinstance(value, bool))
        if fits and self.type in (int, float):
            fits = (
                math.isfinite(value)
                and (self.minimum is None or value >= self.minimum)
                and (self.maximum is None or value <= self.maximum)
                and (self.above is None or value > self.above)
            )
        if not fits or (self.choices and value not in self.choices):
            raise ValueError(f"found {self.name}={value!r}, expected {self.expectation}")
        return value


def hyperparameter(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    choices: tuple = (),
    published: Mapping[str, Any] | None = None,
) -> Any:
    """Declares a field of a configuration.

    Args:
        default: the default value.
        help: str. One sentence: the flag's help, and the table's in the documentation.
        minimum, maximum: bounds, themselves allowed. Optional.
        above: bound, itself not allowed. Optional.
        choices: tuple of the values that are allowed. Optional.
        published: dict of source to the value that is published there. Optional.

    Returns:
        a dataclass field.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Sizes(Configuration):
    ...     units: int = hyperparameter(256, "Hidden units.", minimum=1)
    >>> Sizes(units=0)
    Traceback (most recent call last):
        ...
    ValueError: found units=0, expected a whole number, 1 or more
    """
    known = tuple(Published(value, source) for source, value in (published or {}).items())
    about = {"minimum": minimum, "maximum": maximum, "above": above, "choices": tuple(choices), "published": known}
    return dataclasses.field(default=default, metadata={"help": help, **about})


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Base of configurations: frozen, checked when made.

    Raises:
        ValueError: for a value of another type or out of bounds; see `Hyperparameter.check`.
    """

    def __post_init__(self) -> None:
        for parameter in self.hyperparameters():
            checked = parameter.check(getattr(self, parameter.name))
            object.__setattr__(self, parameter.name, checked)

    @classmethod
    def hyperparameters(cls) -> Iterator[Hyperparameter]:
        """The declared fields, in their order."""
        hints = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if "help" not in field.metadata:
                continue
            kinds = typing.get_args(hints[field.name])
            optional = isinstance(hints[field.name], types.UnionType) and type(None) in kinds
            kind = next(one for one in kinds if one is not type(None)) if optional else hints[field.name]
            yield Hyperparameter(
                field.name, typing.get_origin(kind) or kind, field.default, optional=optional, **field.metadata
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A configuration of named values.

        Raises:
            ValueError: for a name that is not a hyper-parameter of it, with those that are.
        """
        known = [parameter.name for parameter in cls.hyperparameters()]
        for name in values:
            if name not in known:
                raise ValueError(f"found the unknown hyper-parameter {name!r}, expected some of {', '.join(known)}")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """The values by name, as `from_dict` takes them and JSON holds them."""
        return {parameter.name: getattr(self, parameter.name) for parameter in self.hyperparameters()}

    def replace(self, **values: Any) -> Self:
        """The same configuration with other values of some hyper-parameters."""
        return type(self).from_dict({**self.to_dict(), **values})
