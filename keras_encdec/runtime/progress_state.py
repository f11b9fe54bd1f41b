"""Keeps the state of a long task in one JSON file, while it runs and after its end."""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Self

from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.runtime.files import exists, is_url
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.settings_files import read_record
from keras_encdec.runtime.unfinished import temporary_beside

RUNNING, FINISHED, FAILED = "running", "finished", "failed"
# Minimum seconds between two updates of the file, on this machine and in an object store.
_PAUSE, _REMOTE_PAUSE = 2.0, 15.0
_MAX_BYTES = 1 << 16


@dataclasses.dataclass(frozen=True)
class ProgressState:
    """The state of a task at one time.

    Attributes:
        task: str, such as "encdec-score".
        process: int. Its process id.
        state: str: "running", "finished" or "failed".
        step: int. Number of the current step of the task, from 1; 0 before the first.
        unit: str. What is counted, such as "lines".
        done: int. Units done in this step.
        total: int. Units of this step. If only the size of the input is known, it is estimated from the share that has
            been read. `None` if neither is known.
        rate: float. Units per second since the step began.
        eta_seconds: float. Estimate of the time until the end of the step; `None` if it is not known.
        started: str. When the task began, in ISO 8601.
        updated: str. When this state was written.
        errors: int. Errors so far, including those after which the task continued, such as malformed lines.
        last_error: str. Sentence about the last error; `None` if there was none.
    """

    task: str
    process: int
    state: str
    step: int
    unit: str
    done: int
    total: int | None
    rate: float
    eta_seconds: float | None
    started: str
    updated: str
    errors: int
    last_error: str | None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class ProgressRecord:
    """Records the state of a task. Code that runs in its `with` block gets it from `current_record`.

    The file is written at most every two seconds, a remote file at most every 15 seconds, in the background. It is
    replaced as a whole, so that a reader never sees an incomplete file. At the end, the file stays and says "finished",
    or "failed" if the block raised an exception. If the process is killed, it says "running", with the time of the last
    update. A record within the block of another record also updates that one.

    Args:
        task: str, such as "encdec-score".
        path: the file to keep, or its URL. Optional.

    Attributes:
        state: ProgressState.

    Raises:
        InputError: at the start of the block, if the file cannot be written, or if a file of another kind is there,
            which would be overwritten. Later failures to write do not stop the task.

    Example:

    >>> with ProgressRecord("encdec-score") as record:
    ...     record.begin("lines")
    ...     record.update(25, share=0.5)
    ...     record.state.total
    50
    """

    def __init__(self, task: str, path: FilePath | None = None) -> None:
        self.state = ProgressState(task, os.getpid(), RUNNING, 0, "", 0, None, 0.0, None, _now(), _now(), 0, None)
        self._is_remote = is_url(path)
        self._path = path and (os.fspath(path) if self._is_remote else os.path.realpath(path))
        self._writer: concurrent.futures.ThreadPoolExecutor | None = None
        self._writing: concurrent.futures.Future[None] | None = None
        self._outer: ProgressRecord | None = None
        self._written, self._lock = 0.0, threading.RLock()
        self._begin = (time.monotonic(), 0, 0.0)

    def __enter__(self) -> Self:
        if self._path:
            with explained(self._path, "to write the progress"):
                self._check_replaceable()
                self._write()
            if self._is_remote:  # a store that does not answer for a minute must not stop the work
                self._writer = concurrent.futures.ThreadPoolExecutor(1)
        self._outer = current_record()
        _current.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *traceback: object) -> None:
        _current.remove(self)
        if error is not None:
            interrupted = isinstance(error, KeyboardInterrupt)
            self.fail("interrupted" if interrupted else str(error) or type(error).__name__)
        if self.state.state == RUNNING:
            self._change(state=FINISHED, total=self.state.done, eta_seconds=0.0)
        if self._writer:
            self._writer.shutdown()
            self._writer = None
        self._keep()

    def begin(self, unit: str, done: int = 0, share: float = 0.0) -> None:
        """Begins a step, of which an earlier process may have done some units: `done`, which are a `share` of all."""
        self._begin = (time.monotonic(), done, share)
        self._change(step=self.state.step + 1, unit=unit, done=done, total=None, rate=0.0, eta_seconds=None)
        self._keep()
        self._pass_on(lambda outer: outer.begin(unit, done, share))

    def update(self, done: int, total: int | None = None, share: float | None = None, before: int = 0) -> None:
        """Records how much of the step is done.

        Args:
            done: int. Units done.
            total: int. All units of the step. Defaults to `None`: their number is not known.
            share: float. Share of the step that is done. Defaults to `done / total`; `None` if neither is known.
            before: int. Units among them that an earlier process had done, not counting those given to `begin`.
                Defaults to `0`.
        """
        start, first_done, first_share = self._begin
        seconds = max(time.monotonic() - start, 1e-9)
        if share is None and total:
            share = done / total
        if total is None and share:
            total = round(done / share)
        if share is not None and before:
            first_share += share * (before / done)
        eta = None
        if share is not None and share > first_share:
            eta = round(seconds * max(1 - share, 0.0) / (share - first_share), 1)
        self._change(done=done, total=total, rate=round((done - first_done - before) / seconds, 3), eta_seconds=eta)
        if time.monotonic() - self._written >= (_REMOTE_PAUSE if self._is_remote else _PAUSE):
            self._keep()
        self._pass_on(lambda outer: outer.update(done, total, share, before))

    def count_errors(self, number: int, sentence: str) -> None:
        """Counts errors after which the task continues; the sentence is that of the last one."""
        with self._lock:
            self._change(errors=self.state.errors + number, last_error=sentence)
        self._pass_on(lambda outer: outer.count_errors(number, sentence))

    def fail(self, sentence: str) -> None:
        """Marks the task as failed; call it for a task that ends early without an exception."""
        if self.state.state != FAILED:
            self._change(state=FAILED, errors=self.state.errors + 1, last_error=sentence, eta_seconds=None)
            self._pass_on(lambda outer: outer.fail(sentence))

    def _change(self, **values: object) -> None:
        with self._lock:
            self.state = dataclasses.replace(self.state, **values)  # type: ignore[arg-type]

    def _check_replaceable(self) -> None:
        """Checks that the file is missing or is the record of an earlier task: a wrong path must not destroy a file."""
        path = self._path
        if not path or not exists(path) or os.path.isdir(path):  # writing to a directory raises its own error
            return
        may_be_ours = self._is_remote or (os.path.isfile(path) and os.path.getsize(path) <= _MAX_BYTES)
        if not may_be_ours or "eta_seconds" not in read_record(path):
            remedy = "name another file for the progress, or remove this one"
            found = "found a file that is not a progress record"
            raise InputError(found, "expected a progress record to replace, or no file", remedy, path)

    def _pass_on(self, call: "Callable[[ProgressRecord], None]") -> None:
        if self._outer is not None:
            call(self._outer)

    def _keep(self) -> None:
        if not self._path:
            return
        if self._writer is None:
            self._write_if_possible()
        elif self._writing is None or self._writing.done():
            self._written = time.monotonic()
            self._writing = self._writer.submit(self._write_if_possible)

    def _write_if_possible(self) -> None:
        with contextlib.suppress(OSError, InputError):
            self._write()

    def _write(self) -> None:
        assert self._path
        self._change(updated=_now())
        content = json.dumps(dataclasses.asdict(self.state), indent=1, ensure_ascii=False).encode() + b"\n"
        if self._is_remote:
            write_file(self._path, content)
        else:
            with temporary_beside(self._path) as (temporary, descriptor):
                with open(descriptor, "wb") as file:
                    file.write(content)
                os.replace(temporary, self._path)
        self._written = time.monotonic()


# Shared by all threads of the process: the threads of a task use the same record.
_current: list[ProgressRecord] = []


def current_record() -> ProgressRecord | None:
    """Returns the innermost record of the task that runs in this process; `None` without one."""
    return _current[-1] if _current else None


def count_errors(number: int, sentence: str) -> None:
    """Counts errors after which the current task continues, if its progress is recorded.

    Args:
        number: int. Number of errors; 0 changes nothing.
        sentence: str. Sentence about the last one.
    """
    if number and (record := current_record()):
        record.count_errors(number, sentence)
