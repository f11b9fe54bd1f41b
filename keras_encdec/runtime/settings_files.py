"""Files of settings in JSON or TOML, which people edit and copy."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

from keras_encdec.runtime.files import open_output
from keras_encdec.runtime.os_errors import FilePath


def read_parsed(path: pathlib.Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    """What a file holds, whatever is in it.

    Args:
        path: pathlib.Path.
        parse: callable of its text, such as `json.loads`, that raises ValueError.

    Returns:
        dict.

    Raises:
        OSError: when it cannot be read.
        ValueError: when it is not UTF-8, does not parse, is nested too deeply or holds something else than a dict.
    """
    try:
        values = parse(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError(f"it holds a {type(values).__name__}, not settings by name")
    return values


def read_record(path: pathlib.Path) -> dict[str, Any]:
    """What a job wrote of itself, as JSON, to know later what it has done; empty where there is none, or half of one.

    Args:
        path: pathlib.Path.

    Returns:
        dict.
    """
    try:
        return read_parsed(path, json.loads)
    except (OSError, ValueError):
        return {}


def write_json(path: FilePath, value: Any) -> None:
    """Writes a value as indented JSON in UTF-8; the file appears when it is complete.

    Args:
        path: file to write; "-" is the standard output.
        value: whatever JSON can hold.

    Raises:
        InputError: when the file cannot be written.
    """
    with open_output(path) as file:
        file.write(json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")
