"""Runs the stages of an experiment, each one only if its inputs, settings or outputs have changed."""

import dataclasses
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_encdec.experiment.stage import Stage, checksum
from keras_encdec.formats.json_files import write_json
from keras_encdec.formats.os_errors import explained
from keras_encdec.parsed_files import read_record


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
