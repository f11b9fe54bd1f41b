"""Runs the stages of an experiment, each one only if its inputs, settings or outputs have changed."""

import contextlib
import dataclasses
import hashlib
import inspect
import json
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.formats.encodings import NotUTF8Error
from keras_encdec.model_config import CONFIG, SOURCE_VOCABULARY, TARGET_VOCABULARY, WEIGHTS
from keras_encdec.runtime.files import file_checksum, is_url, remove
from keras_encdec.runtime.progress import Progress
from keras_encdec.runtime.remote_folders import StagedFolder
from keras_encdec.runtime.settings_files import Json, read_record, write_json
from keras_encdec.runtime.unfinished import directory_lock

# The files of a model. Other files in its directory belong to training, and may change while the model does not.
_MODEL_FILES = (CONFIG, WEIGHTS, SOURCE_VOCABULARY, TARGET_VOCABULARY)


# Takes the inputs, outputs and settings of a stage as keyword arguments.
StageFunction = Callable[..., Mapping[str, Json] | None]
#: Takes the input of a task, and for some tasks the name of the units, such as `ReadingProgress`.
StageProgress = Callable[..., Progress]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A function, and the files and settings that it is called with.

    Attributes:
        name: str. Unique in an experiment; also the name of its record.
        function: callable. It takes inputs, outputs and settings as keyword arguments, writes the outputs, and returns
            a dict of values that JSON can hold, or `None`. If it has the argument `progress`, it also gets a
            `StageProgress`.
        inputs: dict from argument name to the path of a file or model directory.
        outputs: dict from argument name to the path of a file or directory, which only this stage writes.
        settings: dict from argument name to a value that JSON can hold.
        resources: dict from argument name to a value on which the outputs do not depend, such as a number of processes.
            A stage does not run again because of it.
        reports: list of the files that the caller writes after the last stage; other stages have none. They change with
            every call, so no stage may depend on them.

    If a setting has the name of an input, an output or a resource, the function gets the value of the latter.
    """

    name: str
    function: StageFunction
    inputs: Mapping[str, pathlib.Path]
    outputs: Mapping[str, pathlib.Path]
    settings: Mapping[str, object] = dataclasses.field(default_factory=dict)
    resources: Mapping[str, object] = dataclasses.field(default_factory=dict)
    reports: Sequence[pathlib.Path] = ()

    def run(self, progress: StageProgress = Progress) -> Mapping[str, Json] | None:
        """Calls the function."""
        shown = {"progress": progress} if "progress" in inspect.signature(self.function).parameters else {}
        return self.function(**{**self.settings, **self.inputs, **self.outputs, **self.resources, **shown})

    def key(self) -> dict[str, object]:
        """Returns what the outputs depend on: the function's name, the settings, and the inputs' checksums.

        Raises:
            InputError: if an input cannot be read.
        """
        # If a function is moved or renamed, stages that users have finished run again.
        function = f"{self.function.__module__}.{self.function.__qualname__}"
        inputs = {name: checksum(path) for name, path in self.inputs.items()}
        # JSON turns tuples into lists, as in the record that the key is compared with.
        described = {"function": function, "settings": dict(self.settings), "inputs": inputs}
        as_read: dict[str, object] = json.loads(json.dumps(described))
        return as_read


def checksum(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 checksum of a file, or of the names and contents of a directory's files.

    In a model directory, only the files of the model itself count.

    Raises:
        InputError: if the file or directory is missing or cannot be read.
    """
    path = pathlib.Path(path)
    with explained(path, "to read"):
        if not path.is_dir():
            return file_checksum(path)
        files = [path / name for name in _MODEL_FILES if (path / name).exists()]
        if path / CONFIG not in files:
            files = sorted(file for file in path.rglob("*") if file.is_file())
        lines = [f"{file.relative_to(path)} {file_checksum(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


@dataclasses.dataclass(frozen=True)
class StageResult:
    """The result of a stage, now or in an earlier run.

    Attributes:
        name: str. The stage's name.
        seconds: float. Duration of the stage when it ran.
        result: dict that its function returned; empty for `None`.
        was_run: bool. Whether the stage ran in this run.
    """

    name: str
    seconds: float
    result: Mapping[str, Json]
    was_run: bool


# The folder of the records in a folder of results.
RECORDS = "stages"


@contextlib.contextmanager
def result_folder(
    output: FilePath, job: str, ended: Callable[[StageResult], object]
) -> Iterator[tuple[pathlib.Path, Callable[[StageResult], object]]]:
    """Yields the folder of a job's results: a local folder, locked, or for a URL a local copy, which is uploaded.

    Args:
        output: path or URL of the folder.
        job: str, the kind of job for the lock.
        ended: function to call with a StageResult after each stage.

    Yields:
        tuple: pathlib.Path of the folder; the function to call with each StageResult in place of `ended`, which for a
        URL also uploads the results so far.

    Raises:
        InputError: if another such job uses the folder, or the remote store refuses access.
    """
    if is_url(output):
        # A run that is killed must leave no output without a record; see `check_outputs`.
        staged = StagedFolder(os.fspath(output), existing=True, first=RECORDS, after_errors=True)

        def ended_and_saved(result: StageResult) -> None:
            staged.upload_in_background()
            ended(result)

        with staged as folder:
            yield folder, ended_and_saved
    else:
        with directory_lock(output, job, "--output"):
            yield pathlib.Path(output), ended


def run_stages(
    stages: Sequence[Stage],
    records: str | os.PathLike[str],
    begun: Callable[[Stage, int], object] = lambda stage, number_of_stages: None,
    ended: Callable[[StageResult], object] = lambda result: None,
    progress: StageProgress = Progress,
) -> list[StageResult]:
    """Runs stages in their order, and skips those that are up to date.

    Each stage has a record, `NAME.json`. A stage is up to date if its function, its settings and the checksums of its
    inputs and outputs are those in the record. If a stage was interrupted and its inputs and settings have not
    changed, its unfinished outputs are kept, and the stage may continue them. Before any other run, old outputs are
    removed. Only files that an earlier run of the stage made are ever removed, see `check_outputs`.

    Args:
        stages: list of Stage. The inputs of each exist, or are outputs of earlier stages.
        records: directory of the records, made if it is missing.
        begun: function that is called with a Stage and the number of all stages before each stage that runs. Defaults
            to one that does nothing.
        ended: function that is called with a StageResult after each stage. Defaults to one that does nothing.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.

    Returns:
        list of StageResult, one for each stage.

    Raises:
        ValueError: if two stages have one name.
        InputError: if an input cannot be read, a record cannot be written, or `check_outputs` raises an error.
        Exception: any exception of a stage's function.
    """
    folder = pathlib.Path(records)
    names = [stage.name for stage in stages]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"found two stages with the name {twice[0]!r}, expected another name for each record")
    check_outputs(stages, folder)
    with explained(folder, "to make a directory"):
        folder.mkdir(parents=True, exist_ok=True)
    results = []
    for stage in stages:
        path = folder / f"{stage.name}.json"
        key, record = stage.key(), _read_record(path)
        is_same = {name: record.get(name) for name in key} == key
        was_run = not (is_same and "outputs" in record and record["outputs"] == _checksums(stage))
        if was_run:
            begun(stage, len(stages))
            if not is_same or "outputs" in record:
                for output in stage.outputs.values():
                    remove(output)
            begun_record = {**key, "paths": [os.path.relpath(output, folder) for output in stage.outputs.values()]}
            write_json(path, begun_record)
            record = _run(stage, begun_record, progress)
            write_json(path, record)
        results.append(StageResult(stage.name, record["seconds"], record["result"], was_run))
        ended(results[-1])
    return results


def check_outputs(stages: Sequence[Stage], records: str | os.PathLike[str]) -> None:
    """Checks that the stages, and the reports on them, will overwrite only what earlier runs made.

    Args:
        stages, records: see `run_stages`.

    Raises:
        InputError: if an input that no earlier stage makes is an output of a stage or lies in one, or if an output
            exists that no earlier run made.
    """
    written = {os.path.realpath(path): path for stage in stages for path in (*stage.outputs.values(), *stage.reports)}
    made: set[str] = set()
    for stage in stages:
        for path in stage.inputs.values():
            containing = written.keys() & _containing(path)
            if containing and not made & containing:
                place = written[containing.pop()]
                found = f"found an input {'that is also an output' if place == path else f'in the output {place}'}"
                expected = "expected inputs that the stages neither write nor remove"
                raise InputError(found, expected, "give another --output", path)
        made |= {os.path.realpath(path) for path in stage.outputs.values()}
    outputs = [(stage.name, name, path) for stage in stages for name, path in stage.outputs.items()]
    reported = [stage for stage in stages if (pathlib.Path(records) / f"{stage.name}.json").exists()]
    own = made_before(outputs, records) + [path for stage in reported for path in stage.reports]
    for path in (*(path for _, _, path in outputs), *(path for stage in stages for path in stage.reports)):
        if os.path.lexists(path) and path not in own:
            found = "found a file or folder that no earlier run made"
            raise InputError(found, "expected a new path", "move it, or give another --output", path)


def _containing(path: pathlib.Path) -> set[str]:
    """Returns the real paths of a path and of all folders above it, as given and with its symbolic links resolved."""
    given, resolved = (pathlib.Path(place) for place in (os.path.abspath(path), os.path.realpath(path)))
    return {os.path.realpath(place) for start in (given, resolved) for place in (start, *start.parents)}


def made_before(
    outputs: Iterable[tuple[str, str, pathlib.Path]], records: str | os.PathLike[str]
) -> list[pathlib.Path]:
    """Selects the outputs that earlier runs made, or began to make.

    Args:
        outputs: tuples of the name of a stage, the name of an output in `Stage.outputs`, and its path.
        records: directory of the records.
    """
    folder = pathlib.Path(records)
    found = {path.stem: _read_record(path) for path in folder.glob("*.json")}
    # Other options may make the same file by another stage.
    made = {os.path.realpath(folder / path) for record in found.values() for path in record.get("paths", ())}
    return [
        path
        for stage, name, path in outputs
        if os.path.realpath(path) in made or (stage in found and _has_output(found[stage], name))
    ]


def _read_record(path: pathlib.Path) -> dict[str, Json]:
    """Reads the record of a stage; it is empty if it is damaged."""
    record = read_record(path)
    paths = record.get("paths", [])
    is_record = isinstance(paths, list) and all(isinstance(each, str) for each in paths)
    if "outputs" in record:
        kinds = {"outputs": dict | None, "seconds": int | float, "result": dict}
        is_record &= all(isinstance(record.get(name), kind) for name, kind in kinds.items())
    return record if is_record else {}


def _has_output(record: Mapping[str, Json], name: str) -> bool:
    """Whether a record without paths, damaged or of an earlier version, may belong to a stage with this output."""
    return "paths" not in record and ("outputs" not in record or name in record["outputs"])


def _run(stage: Stage, begun_record: Mapping[str, object], progress: StageProgress) -> dict[str, object]:
    """Runs a stage and returns its record."""
    start = time.monotonic()
    for output in stage.outputs.values():
        with explained(output.parent, "to make a directory"):
            output.parent.mkdir(parents=True, exist_ok=True)
    try:
        result = dict(stage.run(progress) or {})
    except NotUTF8Error as error:
        raise error.without_flag() from None
    # A training run that was resumed reports its whole duration.
    seconds = max(time.monotonic() - start, result.get("seconds", 0.0))
    return {**begun_record, "outputs": _checksums(stage), "seconds": round(seconds, 1), "result": result}


def _checksums(stage: Stage) -> dict[str, str] | None:
    """Returns the checksums of a stage's outputs; `None` if one of them does not exist."""
    if not all(path.exists() for path in stage.outputs.values()):
        return None
    return {name: checksum(path) for name, path in stage.outputs.items()}
