"""Tables of the documentation that are made from the code: flags of commands, hyper-parameters of configurations."""

import importlib
import pathlib
import tomllib
from collections.abc import Iterable

from absl import flags

from keras_encdec.configuration import Hyperparameter

ROOT = pathlib.Path(__file__).parents[2]
KINDS = {"bool": "switch", "str": "text", "string": "text", "tuple": "list", "int": "whole number", "float": "number"}


def commands() -> dict[str, str]:
    """The commands that the package installs: name to "module:function"."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]


def flags_of(command: str) -> flags.FlagValues:
    """The flags that a command defines.

    Args:
        command: str, such as "encdec-train".
    """
    _, _, name = commands()[command].partition(":")
    module = importlib.import_module(f"keras_encdec.cli.{name}")
    values = flags.FlagValues()
    module.COMMAND.define_flags(values)
    return values


def flag_table(command: str) -> str:
    """Markdown tables of a command's flags, one per section, in the order in which the flags are defined."""
    values = flags_of(command)
    parts = []
    for section, defined in values.flags_by_module_dict().items():
        rows = [[f"`--{flag.name}`", _value(flag), _meaning(flag)] for flag in dict.fromkeys(defined)]
        heading = "" if section.startswith("keras_encdec") else f"**{section.capitalize()}**\n\n"
        parts.append(heading + table(["flag", "value", "meaning"], rows))
    return "\n\n".join(parts)


def _value(flag: flags.Flag) -> str:
    """What a flag accepts: its choices, its bounds, or its type."""
    kind = flag.flag_type()
    bounds = getattr(flag.parser, "syntactic_help", "") or ""
    if choices := getattr(flag.parser, "enum_values", None):
        shown_kind = "one of " + ", ".join(choices)
    elif bounds.startswith("one of") or any(character.isdigit() for character in bounds):
        shown_kind = bounds.removeprefix("a ").removeprefix("an ")
    else:
        name = kind.removeprefix("multi ").split()[0]
        shown_kind = KINDS.get(name, name)
    return shown_kind + (", may be repeated" if kind.startswith("multi") else "")


def _meaning(flag: flags.Flag) -> str:
    """A flag's help, and its default where the help does not say it."""
    default = shown(flag.default)
    return flag.help + (f" Default: {default}." if default and "Default:" not in flag.help else "")


def hyperparameter_table(hyperparameters: Iterable[Hyperparameter]) -> str:
    """A Markdown table of hyper-parameters, with their published values."""
    rows = []
    for parameter in hyperparameters:
        allowed = parameter.expectation + (", or not set" if parameter.optional else "")
        published = "; ".join(f"{shown(value)} ({source})" for source, value in parameter.published.items())
        rows.append([f"`{parameter.name}`", allowed, shown(parameter.default), parameter.help, published])
    return table(["name", "allowed", "default", "meaning", "published"], rows)


def configuration_table(path: str) -> str:
    """The table of a configuration.

    Args:
        path: str, "module:class".
    """
    module, _, name = path.partition(":")
    return hyperparameter_table(getattr(importlib.import_module(module), name).hyperparameters())


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """A Markdown table."""
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def shown(value: object) -> str:
    """A value as it is typed: true, 0.01, lstm; empty for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{value}`".lower()
    if isinstance(value, (list, tuple)):
        return f"`{','.join(map(str, value))}`" if value else ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
