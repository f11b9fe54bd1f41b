"""Reads and writes settings files in JSON or TOML, which users may have edited."""

import json
import pathlib
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from keras_encdec.errors import FilePath, InputError
from keras_encdec.runtime.files import exists, is_url, read_contents
from keras_encdec.runtime.open_output import write_file

#: A value of a file in JSON or TOML: a type checker does not know which members it has.
Json: TypeAlias = Any


def read_parsed(path: FilePath, parse: Callable[[str], object]) -> dict[str, Json]:
    """Reads a settings file, and checks that it contains values by name.

    Args:
        path: the file.
        parse: function that converts the file's text to a value, such as `json.loads`. It raises ValueError.

    Raises:
        OSError: if the file cannot be read.
        InputError: if the file is remote and cannot be read.
        ValueError: if the file is not UTF-8, cannot be parsed, is nested too deeply or does not contain a dict.
    """
    try:
        content = read_contents(path) if is_url(path) else pathlib.Path(path).read_bytes()
        values = parse(content.decode("utf-8-sig"))  # editors of Windows write a byte order mark
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError(f"it contains a {type(values).__name__}, not values by name")
    return values


def read_toml(path: FilePath, expected: str, remedy: str) -> dict[str, Json]:
    """Reads a settings file in TOML.

    Args:
        path: the file.
        expected: str. What the file should be, for the error.
        remedy: str. What the user should do, for the error.

    Raises:
        InputError: if the file cannot be read.
    """
    try:
        return read_parsed(path, tomllib.loads)
    except (OSError, ValueError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else f"a file that cannot be read ({error})"
        raise InputError(f"found {reason}", expected, remedy, path) from None


def check_exists(file: FilePath, setting: str, path: FilePath) -> None:
    """Checks that a file or folder that a settings file names exists.

    Args:
        file: the file or folder.
        setting: str. Which setting names it, for the error.
        path: the settings file, for the error.

    Raises:
        InputError: if it does not exist.
    """
    if not exists(file):  # False for a name that no file can have
        raise InputError(f"found no file {file} for {setting}", "expected a file or folder", "check the path", path)


def toml_value(value: object) -> str:
    """Formats a value as TOML: like JSON, except that DEL in strings is escaped, because TOML does not allow it.

    Characters outside ASCII stay as they are: JSON would write an emoji as two escapes, which TOML does not allow.

    Example:

    >>> print(toml_value(["é", 0.5, True]))
    ["é", 0.5, true]
    """
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return text.encode("utf-8", "backslashreplace").decode()  # a byte of a path may not be UTF-8


def toml_lines(values: Mapping[str, object]) -> list[str]:
    """Formats values as lines of TOML, and leaves out those that are `None`."""
    return [f"{name} = {toml_value(value)}" for name, value in values.items() if value is not None]


def read_record(path: FilePath) -> dict[str, Json]:
    """Reads the JSON record that a job wrote about its own work.

    Returns:
        dict, empty if the file is missing or incomplete.
    """
    try:
        return read_parsed(path, json.loads)
    except (OSError, ValueError):
        return {}


def write_json(path: FilePath, value: object) -> None:
    r"""Writes a value as indented JSON in UTF-8. The file appears when it is complete.

    A byte of a file's name that is not UTF-8 is written as an escape, such as `\udce9`, which JSON's readers decode.

    Args:
        path: file to write; "-" means standard output.
        value: any value that JSON can represent.

    Raises:
        InputError: if the file cannot be written.
    """
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
