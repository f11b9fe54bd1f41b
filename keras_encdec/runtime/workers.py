"""Executors of threads and processes, results in the order of the items, and handlers of stop signals."""

import collections
import contextlib
import gc
import math
import os
import signal
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from keras_encdec.errors import InputError
from keras_encdec.runtime.control_groups import processor_limit

if TYPE_CHECKING:
    from multiprocessing.synchronize import BoundedSemaphore, Lock

# Advice for the error about a killed child process: each one imports the main module of the program that starts it.
OWN_PROGRAM = 'a program of your own must be a file that does its work under if __name__ == "__main__":'
# The variables that tell PyTorch, TensorFlow and XLA how many threads to start.
THREAD_VARIABLES = "OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "NPROC"
Item = TypeVar("Item")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


@contextlib.contextmanager
def threads(number: int, begin: Callable[[], object] | None = None) -> Iterator[ThreadPoolExecutor]:
    """Yields an executor with a number of threads, and waits for them at the end unless the user interrupts.

    Each thread first calls `begin`, if it is given.
    """
    executor = ThreadPoolExecutor(number, initializer=begin)
    try:
        yield executor
    except BaseException as error:
        executor.shutdown(wait=not isinstance(error, KeyboardInterrupt), cancel_futures=True)
        raise
    executor.shutdown()


def available_processors() -> int:
    """Returns the number of processors that this process may use, at most as many as its container's limit allows."""
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = processor_limit()
    return number if limit is None else min(number, max(1, math.ceil(limit)))


def collect_cycles_rarely() -> None:
    """Makes Python's garbage collector search for reference cycles rarely.

    Commands and their workers make millions of records without cycles. The search took three quarters of a command's
    time, and a fifth of a worker's.
    """
    gc.set_threshold(1 << 20)


@contextlib.contextmanager
def processes(number: int) -> Iterator[Executor]:
    """Yields an executor with a number of processes, which end at once if the block fails or this process dies.

    If the number is 1, this process does the work, as soon as it is submitted.

    The processes are spawned, because a process that runs TensorFlow must not be forked. A program that calls this
    function must therefore keep its own work under `if __name__ == "__main__":`.

    Yields:
        `concurrent.futures.Executor`. The functions and arguments submitted to it must be picklable.

    Raises:
        InputError: if a process was killed, as the system does when memory is short.
    """
    if number == 1:
        yield _SameProcess()
        return
    try:
        with child_processes(number) as executor:
            yield executor
    except BrokenProcessPool as error:
        found, expected = "found that a process of this job was killed", "expected enough memory for all processes"
        raise InputError(found, expected, f"free memory, or use fewer processes; {OWN_PROGRAM}") from error


@contextlib.contextmanager
def child_processes(number: int, begin: Callable[..., object] | None = None, *arguments: object) -> Iterator[Executor]:
    """Yields an executor with a number of child processes, as `processes` does, even if the number is 1.

    Each process first calls `begin` with the arguments, which must be picklable.

    Raises:
        BrokenProcessPool: if a process was killed.
    """
    _start_quiet_tracker()
    context = _RecordingContext()
    ending, alive = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(number, context, _start_worker, (ending, begin, arguments))
    try:
        yield executor
    except BaseException:
        # The pipe alone would not end a process while it is inside a long library call.
        for process in context.started:
            process.kill()
        executor.shutdown(cancel_futures=True)
        raise
    finally:
        context.register_semaphores()
        executor.shutdown()
        alive.close()
        ending.close()


class _RecordingContext(SpawnContext):
    """Context that spawns processes, and records them and the names of its semaphores."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []
        self._semaphores: list[str] = []

    def Lock(self) -> "Lock":  # noqa: N802
        return self._recorded(super().Lock())

    def BoundedSemaphore(self, value: int = 1) -> "BoundedSemaphore":  # noqa: N802
        return self._recorded(super().BoundedSemaphore(value))

    def Process(self, *arguments: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        self.started.append(super().Process(*arguments, **options))
        return self.started[-1]

    def register_semaphores(self) -> None:
        """Registers the semaphores again, in case Python's resource tracker was killed.

        Python then starts another tracker, which does not know the semaphores and prints a traceback when one is
        unregistered.
        """
        for name in self._semaphores:
            resource_tracker.register(name, "semaphore")

    def _recorded(self, lock: Any) -> Any:
        self._semaphores.append(lock._semlock.name)
        return lock


class _SameProcess(Executor):
    """Executor that does the work in this process, as soon as it is submitted."""

    def submit(
        self, function: Callable[Parameters, Result], /, *arguments: Parameters.args, **options: Parameters.kwargs
    ) -> Future[Result]:
        future: Future[Result] = Future()
        future.set_result(function(*arguments, **options))
        return future


# Two threads may each replace a process that has died.
_tracker_lock = threading.Lock()


def _start_quiet_tracker() -> None:
    """Starts the resource tracker so that it removes semaphores of killed processes without a warning.

    The tracker itself ignores only two of the signals that a terminal sends to all processes. If another one ended it,
    this process would print a traceback for each of its semaphores.
    """
    with _tracker_lock:
        before = os.environ.get("PYTHONWARNINGS")
        os.environ["PYTHONWARNINGS"] = "ignore"
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # which the tracker inherits
        try:
            resource_tracker.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            if before is None:
                del os.environ["PYTHONWARNINGS"]
            else:
                os.environ["PYTHONWARNINGS"] = before


def _start_worker(ending: Connection, begin: Callable[..., object] | None, arguments: tuple[object, ...]) -> None:
    for number in STOP_SIGNALS:  # a terminal sends them to all processes, but only the parent decides
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(ending,), daemon=True).start()
    collect_cycles_rarely()
    if begin is not None:
        begin(*arguments)


def _end_with_parent(ending: Connection) -> None:
    """Ends this process when its parent ends, in whatever way: only the parent holds the other end of the pipe."""
    with contextlib.suppress(EOFError, OSError):
        ending.recv_bytes()
    os._exit(1)


def in_order(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """Calls a function on items in an executor and yields the results in the items' order.

    Items are read only as needed: `ahead` further items are submitted before the result of an item is awaited.
    """
    pending: collections.deque[Future[Result]] = collections.deque()
    try:
        for item in items:
            pending.append(executor.submit(function, item))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Signals within this many seconds count as one: both the shell and the kernel signal a hang-up, and `timeout` signals
# twice.
SAME_SIGNAL = 1.0

Handler = Callable[[int, types.FrameType | None], object]
# A handler as `signal.getsignal` returns it.
FormerHandler = Handler | int | None


def handle_stop_signals(handler: Handler) -> dict[int, FormerHandler]:
    """Sets the handler of all stop signals, except of a hang-up that is ignored, as under nohup.

    Returns the former handlers, for `restore_handlers`.

    Outside the main thread it does nothing, because only the main thread can set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    before: dict[int, FormerHandler] = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, handler)
    return before


def restore_handlers(handlers: Mapping[int, FormerHandler]) -> None:
    """Sets the handlers of signals to those that `handle_stop_signals` returned."""
    for number, handler in handlers.items():
        signal.signal(number, handler)
