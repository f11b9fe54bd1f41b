"""Reads and writes settings files in JSON or TOML, which users may have edited."""

import json
import pathlib
from collections.abc import Callable
from typing import Any, TypeAlias

from keras_encdec.errors import FilePath
from keras_encdec.runtime.files import is_url, read_contents
from keras_encdec.runtime.open_output import open_output

#: A value of a file in JSON or TOML: a type checker does not know which members it has.
Json: TypeAlias = Any


def read_parsed(path: FilePath, parse: Callable[[str], object]) -> dict[str, Json]:
    """Reads a settings file, and checks that it contains values by name.

    Args:
        path: the file.
        parse: callable from the file's text to a value, such as `json.loads`. It raises ValueError.

    Returns:
        dict.

    Raises:
        OSError: if the file cannot be read.
        InputError: if the file is remote and cannot be read.
        ValueError: if the file is not UTF-8, cannot be parsed, is nested too deeply or does not contain a dict.
    """
    try:
        content = read_contents(path) if is_url(path) else pathlib.Path(path).read_bytes()
        values = parse(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError(f"it contains a {type(values).__name__}, not values by name")
    return values


def read_record(path: FilePath) -> dict[str, Json]:
    """Reads the JSON record that a job wrote about its own work.

    Args:
        path: the file.

    Returns:
        dict, empty if the file is missing or incomplete.
    """
    try:
        return read_parsed(path, json.loads)
    except (OSError, ValueError):
        return {}


def write_json(path: FilePath, value: object) -> None:
    """Writes a value as indented JSON in UTF-8. The file appears when it is complete.

    Args:
        path: file to write; "-" is the standard output.
        value: any value that JSON can represent.

    Raises:
        InputError: if the file cannot be written.
    """
    with open_output(path) as file:
        file.write(json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")
