"""Runs the stages of an experiment, each one only if its inputs, settings or outputs have changed."""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_encdec.errors import InputError
from keras_encdec.runtime.files import file_checksum
from keras_encdec.runtime.os_errors import explained
from keras_encdec.runtime.settings_files import read_record, write_json

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


@dataclasses.dataclass(frozen=True)
class StageResult:
    """What a stage did, now or earlier.

    Attributes:
        name: str. The stage's name.
        seconds: float. What it took when it ran.
        result: dict that its function returned; empty for `None`.
        was_run: bool. Whether it ran now.
    """

    name: str
    seconds: float
    result: Mapping[str, Any]
    was_run: bool


def run_stages(
    stages: Sequence[Stage],
    records: str | os.PathLike[str],
    begun: Callable[[Stage], object] = lambda stage: None,
    ended: Callable[[StageResult], object] = lambda result: None,
) -> list[StageResult]:
    """Runs stages in their order, and leaves out those that have been run already.

    A stage has a record, `NAME.json`. It is left out if the record tells of the same function, settings and checksums
    of inputs, and of outputs with the checksums that they still have. A stage that was begun with the same inputs and
    did not end gets its outputs as they are, to go on with; before any other run, old outputs are removed.

    Args:
        stages: list of Stage; each one's inputs are there, or outputs of stages before it.
        records: directory of the records, made if need be.
        begun: callable of each Stage that is run, before it is. Defaults to nothing.
        ended: callable of each StageResult. Defaults to nothing.

    Returns:
        list of StageResult.

    Raises:
        InputError: when an input cannot be read or a record cannot be written; and what the functions raise.
    """
    folder = pathlib.Path(records)
    with explained(folder, "to make a directory"):
        folder.mkdir(parents=True, exist_ok=True)
    results = []
    for stage in stages:
        path = folder / f"{stage.name}.json"
        key, record = stage.key(), read_record(path)
        is_same = {name: record.get(name) for name in key} == key
        was_run = not (is_same and "outputs" in record and record["outputs"] == _checksums(stage))
        if was_run:
            begun(stage)
            if not is_same or "outputs" in record:
                _remove_outputs(stage)
            write_json(path, key)
            record = _run(stage, key)
            write_json(path, record)
        results.append(StageResult(stage.name, record["seconds"], record["result"], was_run))
        ended(results[-1])
    return results


def _run(stage, key):
    start = time.monotonic()
    for output in stage.outputs.values():
        with explained(output.parent, "to make a directory"):
            output.parent.mkdir(parents=True, exist_ok=True)
    result = dict(stage.run() or {})
    # A training that was killed and went on tells of all its time.
    seconds = max(time.monotonic() - start, result.get("seconds", 0.0))
    return {**key, "outputs": _checksums(stage), "seconds": round(seconds, 1), "result": result}


def _checksums(stage):
    if not all(path.exists() for path in stage.outputs.values()):
        return None
    return {name: checksum(path) for name, path in stage.outputs.items()}


def _remove_outputs(stage):
    for path in stage.outputs.values():
        with explained(path, "to remove"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
