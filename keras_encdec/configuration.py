"""Hyper-parameters declared once: name, type, default, bounds, help, published value and source.

A configuration is a frozen dataclass whose fields are made by `hyperparameter`. Command-line flags, checks and
their messages, presets, `get_config` and the tables in the documentation are all made from these fields.
"""

import dataclasses
import math
import numbers
import os
import re
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from keras_encdec.errors import cut

# Maximum number of characters of a value that an error shows.
_MAX_VALUE_LENGTH = 300
# Longer texts are cut in any sentence. The names of all hyper-parameters of a class are shorter.
_MAX_TEXT_LENGTH = 700


class ConfigurationError(ValueError):
    """Error about a value of a hyper-parameter that is not allowed, or about values that contradict each other.

    Args:
        sentence: str, without a full stop. The names of hyper-parameters in it are in braces, and a command replaces
            them by its flags: "found {units}=%r, expected %s".
        *values: values for the `%` formats in the sentence.

    Example:

    >>> error = ConfigurationError("found {tokenize} with {phrase_table}=%s", "table.gz")
    >>> print(error)
    found tokenize with phrase_table=table.gz
    >>> print(error.sentence("--{}".format))
    found --tokenize with --phrase_table=table.gz
    """

    def __init__(self, sentence: str, *values: object) -> None:
        self._sentence, self._values = sentence, values
        super().__init__(self.sentence(str))

    def sentence(self, name: Callable[[str], str]) -> str:
        """Formats the sentence. `name` returns the text to show for the name of a hyper-parameter."""
        values = tuple(cut(value, _MAX_TEXT_LENGTH) if isinstance(value, str) else value for value in self._values)
        return re.sub(r"\{(\w+)\}", lambda match: name(match[1]), self._sentence) % values

    def __reduce__(self) -> tuple[type, tuple]:
        """Pickles the arguments of the constructor, so that an error from another process stays the same."""
        return type(self), (self._sentence, *self._values)


class UnknownChoiceError(ConfigurationError):
    """Error about a value that is not one of the choices, which registered names may extend."""


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raises UnknownChoiceError for a value of the argument `name` that is not one of the choices."""
    if value not in choices:
        raise UnknownChoiceError(f"found {{{name}}}=%r, expected one of %s", value, ", ".join(choices))


#: The type of a hyper-parameter's values.
Kind: typing.TypeAlias = type


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    """Declaration of one field of a configuration.

    Attributes:
        name: str.
        type: `int`, `float`, `bool`, `str` or `tuple`, even if the value may be `None`.
        default: the default value.
        help: str. What the value means, in a few sentences.
        optional: bool. Whether the value may be `None`, which means "not set".
        minimum: smallest allowed value; `None` for no bound.
        maximum: largest allowed value; `None` for no bound.
        above: the value must be greater than this bound; `None` for no bound.
        choices: tuple of the allowed values; empty if any value is allowed.
        published: dict from a publication and its section, such as "Cho et al., 2014, section 4.1", to the value that
            it gives.
        fixed: bool. Whether a resumed training run must keep the value that it started with.
        group: str. Heading of the flag in `--help`; empty for the heading that the command chooses.
        is_path: bool. Whether the value is the path or URL of a file or folder, or a tuple of them.
        needs: str. Name of another hyper-parameter without which this one has no effect; empty for none.
        item_type: `int`, `float` or `str`, the type of a tuple's items. The bounds apply to the items.
    """

    name: str
    type: Kind
    default: object
    help: str
    optional: bool = False
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    choices: tuple = ()
    published: Mapping[str, object] = dataclasses.field(default_factory=dict)
    fixed: bool = False
    group: str = ""
    is_path: bool = False
    needs: str = ""
    item_type: Kind = str

    @property
    def expectation(self) -> str:
        """The allowed values, for error messages and tables: "a whole number, 1 or more"."""
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

    def check(self, value: object) -> object:
        """Returns the value, converted to the declared type, if it is allowed.

        Raises:
            ConfigurationError: a ValueError, `found units=0, expected a whole number, 1 or more`.
        """
        if value is None and self.optional:
            return value
        if self.type is tuple:
            items = value if isinstance(value, (tuple, list)) else [None]
            items = [_converted(item, self.item_type) for item in items]
            fits = all(self._fits(item, self.item_type) for item in items)
            checked: object = tuple(items)
        else:
            checked = _converted(value, self.type)
            fits = self._fits(checked, self.type)
        if not fits:
            shown = cut(repr(value), _MAX_VALUE_LENGTH)
            kind = UnknownChoiceError if self.choices else ConfigurationError
            is_too_large = self.type is int and isinstance(checked, int) and checked > sys.maxsize
            limit = f", at most {sys.maxsize}" if is_too_large and self.maximum is None else ""
            raise kind(f"found {{{self.name}}}=%s, expected %s", shown, self.expectation + limit)
        return checked

    def _fits(self, value: Any, kind: Kind) -> bool:
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if fits and kind in (int, float):
            fits = (
                (abs(value) <= sys.maxsize if kind is int else math.isfinite(value))
                and (self.minimum is None or value >= self.minimum)
                and (self.maximum is None or value <= self.maximum)
                and (self.above is None or value > self.above)
            )
        return fits and (not self.choices or value in self.choices)


def _converted(value: object, kind: type) -> object:
    """Converts a path to str, a number of NumPy to int or float, and an int to float if floats are expected."""
    if kind is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool):
        return value
    if kind is int and isinstance(value, numbers.Integral):
        return int(value)
    if kind is float and isinstance(value, numbers.Real) and not (isinstance(value, int) and abs(value) > sys.maxsize):
        return float(value)
    return value


def hyperparameter(
    default: object,
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    choices: Sequence[object] | Callable[[], Sequence[object]] = (),
    published: Mapping[str, object] | None = None,
    fixed: bool = False,
    group: str = "",
    is_path: bool = False,
    needs: str = "",
) -> Any:
    """Declares a field of a configuration.

    Args:
        default: the default value.
        help: str. What the value means, for the flag's help and the tables in the documentation.
        choices: the allowed values, or a function that returns them, such as the names in a registry. Optional.
        minimum, maximum, above, published, fixed, group, is_path, needs: see `Hyperparameter`. Optional.

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
    about = {"minimum": minimum, "maximum": maximum, "above": above, "choices": choices, "published": published or {}}
    about |= {"fixed": fixed, "group": group, "is_path": is_path, "needs": needs}
    return dataclasses.field(default=default, metadata={"help": help, **about})


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Base class of configurations, which are frozen, and checked when they are created.

    Raises:
        ConfigurationError: a ValueError, for a value of a wrong type or out of bounds, see `Hyperparameter.check`,
            and for values that contradict each other, see `check`.
    """

    def __post_init__(self) -> None:
        parameters = list(self.hyperparameters())
        for parameter in parameters:
            checked = parameter.check(getattr(self, parameter.name))
            object.__setattr__(self, parameter.name, checked)
        for parameter in parameters:
            is_given = getattr(self, parameter.name) not in (parameter.default, "")
            if parameter.needs and is_given and not getattr(self, parameter.needs):
                raise ConfigurationError(f"found {{{parameter.name}}} without {{{parameter.needs}}}, expected both")
        self.check()

    def check(self) -> None:
        """Raises ConfigurationError if values contradict each other. Subclasses override it."""

    @classmethod
    def hyperparameters(cls) -> Iterator[Hyperparameter]:
        """Yields the declared fields, in order.

        Raises:
            TypeError: for a class that declares fields and is not decorated as a dataclass: they would have no values.
        """
        if forgotten := [name for name, value in vars(cls).items() if isinstance(value, dataclasses.Field)]:
            decorator = "@dataclasses.dataclass(frozen=True)"
            raise TypeError(f"found {cls.__name__} with the field {forgotten[0]!r} without {decorator}; decorate it")
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
    def check_names(cls, values: Mapping[str, object]) -> None:
        """Raises ConfigurationError for a name that is not a hyper-parameter; the error lists the hyper-parameters."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                expected = ", ".join(known)
                raise ConfigurationError("found the unknown hyper-parameter %r, expected one of %s", name, expected)

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Creates a configuration from values by name.

        Raises:
            ConfigurationError: a ValueError, for an unknown name and for values that cannot be used.
        """
        cls.check_names(values)
        return cls(**values)

    @classmethod
    def upgraded(cls, values: Mapping[str, object]) -> dict[str, object]:
        """Converts values that an earlier version of this package may have saved. Subclasses override it."""
        return dict(values)

    @classmethod
    def with_paths(cls, values: Mapping[str, object], change: Callable[[str], str]) -> dict[str, object]:
        """Returns values by name, with each path among them replaced by what `change` returns for it.

        Values that have not been checked are allowed: those that are not text stay as they are, and so does an empty
        text, which stands for no file.
        """
        changed = dict(values)
        for name in [parameter.name for parameter in cls.hyperparameters() if parameter.is_path]:
            value = values.get(name)
            if isinstance(value, str) and value:
                changed[name] = change(value)
            elif isinstance(value, (list, tuple)):
                changed[name] = [change(item) if isinstance(item, str) and item else item for item in value]
        return changed

    def paths(self) -> dict[str, Any]:
        """Returns the given files and folders by name: a path, or a tuple of paths."""
        return {p.name: value for p in self.hyperparameters() if p.is_path and (value := getattr(self, p.name))}

    def to_dict(self) -> dict[str, Any]:
        """Returns the values by name, in a form that `from_dict` reads and that JSON can represent."""
        return {parameter.name: getattr(self, parameter.name) for parameter in self.hyperparameters()}

    def changed(self) -> list[str]:
        """Returns the names of the hyper-parameters whose values are not the defaults, in order."""
        return [p.name for p in self.hyperparameters() if getattr(self, p.name) != p.default]

    @classmethod
    def combined(cls, options: Self | None, values: Mapping[str, object]) -> Self:
        """Combines the `options` of a task with its keyword arguments, which take precedence.

        Args:
            options: a configuration; `None` for the defaults.
            values: dict from name to value.

        Raises:
            ConfigurationError: see `from_dict`, and for `options` of another type.
        """
        chosen = cls() if options is None else cls.of_type(options)
        return chosen.replace(**values) if values else chosen

    @classmethod
    def of_type(cls, options: Self, name: str = "options") -> Self:
        """Returns the argument `name` of a task, which must be of this class.

        Raises:
            ConfigurationError: for another object, such as a dict.
        """
        if not isinstance(options, cls):
            raise ConfigurationError("found %s=%s, expected a %s", name, reprlib.repr(options), cls.__name__)
        return options

    def replace(self, **values: object) -> Self:
        """Returns a copy with other values of some hyper-parameters."""
        self.check_names(values)
        return dataclasses.replace(self, **values)


def product_rounded_up(factor: float, number: int) -> float:
    """Multiplies a hyper-parameter by a number and rounds up; infinity if a float cannot hold the product.

    Example:

    >>> product_rounded_up(1.1, 10), product_rounded_up(1.11, 10)
    (11.0, 12.0)
    """
    product = factor * number * (1 - 1e-12)  # 1.1 * 10 is a little more than 11
    return float(math.ceil(product)) if math.isfinite(product) else product
