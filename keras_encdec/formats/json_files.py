"""Results as JSON, for people and programs."""

import json
from typing import Any

from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.files import open_output


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
