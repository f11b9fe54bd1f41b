"""Stages of an experiment: functions with declared inputs, outputs and settings."""

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from keras_encdec.errors import InputError
from keras_encdec.formats.checksums import file_checksum
from keras_encdec.formats.os_errors import explained

# What a model directory needs to be used; the rest of it belongs to training, and changes without changing the model.
_MODEL_FILES = ("config.json", "best.keras", "source.vocab", "target.vocab")


@dataclasses.dataclass(frozen=True)
class Stage:
    """A function, and the files and settings it is called with.

    Attributes:
        name: str. Unique in an experiment; also the name of its record.
        function: callable. It takes inputs, outputs and settings as keyword arguments, writes the outputs, and returns
            a dict that JSON can hold, or `None`.
        inputs: dict of argument name to path. Files or model directories.
        outputs: dict of argument name to path. Files or directories, each written by this stage alone.
        settings: dict of argument name to any value that JSON can hold.
    """

    name: str
    function: Callable[..., Mapping[str, Any] | None]
    inputs: Mapping[str, pathlib.Path]
    outputs: Mapping[str, pathlib.Path]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def run(self) -> Mapping[str, Any] | None:
        """Calls the function."""
        return self.function(**self.inputs, **self.outputs, **self.settings)

    def key(self) -> dict[str, Any]:
        """Everything that the outputs depend on: the function's name, the settings, and the inputs' checksums.

        Raises:
            InputError: when an input cannot be read.
        """
        function = f"{self.function.__module__}.{self.function.__qualname__}"
        inputs = {name: checksum(path) for name, path in self.inputs.items()}
        # As JSON gives it back: tuples are lists there.
        return json.loads(json.dumps({"function": function, "settings": dict(self.settings), "inputs": inputs}))


def checksum(path: str | os.PathLike[str]) -> str:
    """The SHA-256 checksum of a file, or of the names and contents of a directory's files.

    Of a model directory, only the files of the model itself count.

    Raises:
        InputError: when it is not there or cannot be read.
    """
    path = pathlib.Path(path)
    with explained(path, "to read"):
        if not path.exists():
            raise InputError("found nothing there", "expected a file or a directory", path=path)
        if not path.is_dir():
            return file_checksum(path)
        files = [path / name for name in _MODEL_FILES if (path / name).exists()]
        if path / "config.json" not in files:
            files = sorted(file for file in path.rglob("*") if file.is_file())
        lines = [f"{file.relative_to(path)} {file_checksum(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
