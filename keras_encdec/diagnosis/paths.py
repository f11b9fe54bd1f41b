"""Checks models, exports and the shards of jobs on disk.

Functions import the libraries themselves, so that a missing one is reported, too.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator

from keras_encdec.errors import FilePath, InputError, explained, shown_path
from keras_encdec.runtime.files import is_url


@dataclasses.dataclass(frozen=True)
class CheckedPath:
    """What a check of a path found.

    Attributes:
        path: str.
        kind: str. What is there, such as "model directory", or "unknown".
        state: str: "complete and unchanged", "damaged" or "not checked".
        found: str. What was checked, such as its size.
        problems: tuple of str: sentences that say what is wrong, and what to do.
    """

    path: str
    kind: str
    state: str
    found: str
    problems: tuple[str, ...]

    title = "Checked"

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yields what to show: labels and values."""
        state = self.state.upper() if self.problems else self.state
        yield self.path, f"{self.kind}, {state}" + (f": {self.found}" if self.found else "")


def check_path(path: FilePath, backend_works: bool = True) -> CheckedPath:
    """Checks a model directory, an export or the folder of an unfinished sharded job.

    Args:
        path: path or URL of the directory, path of a file in a model directory, or the name of a packaged model.
        backend_works: bool. Whether Keras can be imported, which loading a model needs. Defaults to `True`.

    Returns:
        CheckedPath, with its problems. Broken files raise no exception.
    """
    kind, found, checked = "unknown", "", False
    problems: list[str] = []
    try:
        from keras_encdec.model_config import model_path
        from keras_encdec.runtime.remote_folders import copied_folder

        with copied_folder(os.fspath(path)) if is_url(path) else contextlib.nullcontext(model_path(path)) as folder:
            kind = _kind(folder)
            checked = kind != _MODEL or backend_works
            found, problems = _check(folder.parent if folder.is_file() else folder, kind, backend_works)
    except InputError as error:
        problems.append(str(error))
    except ImportError as error:
        checked = False
        problems.append(f"{path}: found a library that cannot be imported ({error}); install it again.")
    except MemoryError:
        checked = False
        problems.append(f"{path}: found too little memory to check it; free some, or raise its limit (ulimit -v).")
    except Exception as error:  # damaged files may raise any exception; the diagnosis continues
        problems.append(f"{path}: could not be checked ({type(error).__name__}: {error}); copy it again.")
    state = "not checked" if not checked else "damaged" if problems else "complete and unchanged"
    return CheckedPath(str(path), kind, state, found, tuple(problems))


_MODEL, _EXPORT, _VERSION = "model directory", "export", "version of an export"
_SHARDS = "unfinished sharded job"


def _kind(path: pathlib.Path) -> str:
    """Returns what is at a path, judging by the names of the files."""
    from keras_encdec.export.versions import versions
    from keras_encdec.runtime.shard_folder import MANIFEST

    with explained(path, "to look for a model or an export"):
        path.stat()
    if path.is_file():
        names = {path.name}
    else:
        with explained(path, "to list a directory"):
            names = {child.name for child in path.iterdir()}
    if MANIFEST in names or path.suffix == ".shards":
        return _SHARDS
    if names & {"config.json", "best.keras", "source.vocab", "target.vocab"}:
        return _MODEL
    if names & {"saved_model.pb", "assets.extra"}:
        return _VERSION
    if path.is_dir() and ("models.config" in names or versions(path)):
        return _EXPORT
    found = "found neither a model, nor an export, nor the shards of a job"
    raise InputError(found, "expected config.json, numbered versions or manifest.json", "check the path", path)


def _check(folder: pathlib.Path, kind: str, backend_works: bool) -> tuple[str, list[str]]:
    """Checks a folder of the given kind. Returns what was checked, such as its size, and the problems."""
    if kind == _SHARDS:
        return _check_shards(folder)
    if kind in (_EXPORT, _VERSION):
        return _check_versions(folder, kind == _VERSION)
    if backend_works:
        return _check_model(folder)
    return "", [f"{shown_path(folder)}: models cannot be loaded without a working backend; repair the backend first."]


def _check_model(folder: pathlib.Path) -> tuple[str, list[str]]:
    from keras_encdec.backend.startup import import_keras

    import_keras()
    from keras_encdec.model_config import CONFIG, WEIGHTS, task_folder, tasks_of
    from keras_encdec.model_directory import ModelDirectory, load_model

    try:
        directory = ModelDirectory.load(folder)
    except InputError as error:
        problems = [str(error)]
        # A damaged vocabulary is found before the weights are read: they may be damaged, too.
        if error.path not in (folder, folder / CONFIG, folder / WEIGHTS):
            try:
                load_model(folder / WEIGHTS)
            except InputError as another:
                problems.append(str(another))
        return "", problems
    words = f"{len(directory.source_vocabulary):,} and {len(directory.target_vocabulary):,} words"
    tasks = [_check_model(task_folder(folder, task)) for task in tasks_of(folder)[1:]]
    further = f", {len(tasks)} more task{'s' * (len(tasks) > 1)}" if tasks else ""
    return f"{words}, {directory.model.count_params():,} weights{further}", [each for task in tasks for each in task[1]]


def _check_versions(folder: pathlib.Path, single: bool) -> tuple[str, list[str]]:
    from keras_encdec.export.versions import check_unchanged, version_checksums, versions

    folders = [folder] if single else [folder / str(number) for number in versions(folder)]
    if not folders:
        raise InputError("found no version", "expected at least one", "export one first (encdec-export)", folder)
    problems = []
    for version in folders:
        try:
            check_unchanged(version)
            if "saved_model.pb" not in version_checksums(version):
                raise InputError("found no graph", "expected saved_model.pb", "export the model again", version)
        except InputError as error:
            problems.append(str(error))
    return f"version {', '.join(version.name for version in folders)}", problems


def _check_shards(folder: pathlib.Path) -> tuple[str, list[str]]:
    """Checks the parts that the records of a sharded job list. Without a manifest the job cannot continue."""
    from keras_encdec.runtime.settings_files import read_parsed
    from keras_encdec.runtime.shard_folder import DONE, MANIFEST, part_content, record_checksum

    def damaged(what: str, path: pathlib.Path) -> str:
        return str(InputError(f"found a damaged {what}", "expected what was written", "run the job again", path))

    try:
        read_parsed(folder / MANIFEST, json.loads)
    except (OSError, ValueError) as error:
        found = f"found a manifest that cannot be read ({error})"
        raise InputError(found, "", f"remove {shown_path(folder)} and run the job again", folder) from None
    done, problems = 0, []
    for path in sorted(folder.glob(f"*{DONE}")):
        try:
            record = read_parsed(path, json.loads)
            if record["checksum"] != record_checksum(record):
                raise ValueError
            checksums = {f"{record['shard']:09}.{i}": output["sha256"] for i, output in enumerate(record["outputs"])}
        except (OSError, ValueError, KeyError, TypeError):  # TypeError: JSON of another form
            problems.append(damaged("record", path))
            continue
        done += 1
        for name, checksum in checksums.items():
            part, compressed = folder / name, folder / f"{name}.gz"
            content = part_content(compressed if compressed.exists() else part)
            if hashlib.sha256(content).hexdigest() != checksum:
                problems.append(damaged("part", part))
    return f"{done:,} {'shard is' if done == 1 else 'shards are'} done", problems
