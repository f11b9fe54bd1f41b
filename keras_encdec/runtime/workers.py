"""Work shared by threads and processes with results in order, and the signals that end it."""

import collections
import contextlib
import os
import signal
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from typing import Any, TypeVar

from keras_encdec.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextlib.contextmanager
def threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """An executor of that number of threads, which is waited for at the end unless the user interrupts it."""
    executor = ThreadPoolExecutor(number)
    try:
        yield executor
    except BaseException as error:
        executor.shutdown(wait=not isinstance(error, KeyboardInterrupt), cancel_futures=True)
        raise
    executor.shutdown()


def available_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def processes(number: int) -> Iterator[Executor]:
    """An executor of that number of processes, which end at once where the block fails or this process dies.

    They are started afresh, as a process that runs TensorFlow must not be forked; so a program that calls this keeps
    its own work under `if __name__ == "__main__":`.

    Args:
        number: int. Processes; with 1 the work is done in this process, when it is submitted.

    Yields:
        `concurrent.futures.Executor`. What is submitted to it can be pickled.

    Raises:
        InputError: when a process was killed, as the system does where memory is short.
    """
    if number == 1:
        yield _SameProcess()
        return
    _start_quiet_tracker()
    context = _RecordingContext()
    ending, alive = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(number, context, _start_worker, (ending,))
    try:
        yield executor
    except BaseException as error:
        for process in context.started:  # not by the pipe, which a library that runs for long does not notice
            process.kill()
        executor.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise InputError(
                "found that a process of this job was killed",
                "expected enough memory for all of them",
                "free memory, or use fewer processes",
            ) from error
        raise
    finally:
        executor.shutdown()
        alive.close()
        ending.close()


class _RecordingContext(SpawnContext):
    """Starts processes afresh, and keeps them.

    Attributes:
        started: list of the processes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.started: list[Any] = []

    def Process(self, *arguments: Any, **options: Any) -> Any:  # type: ignore[override]  # noqa: N802
        """As `multiprocessing.Process`."""
        self.started.append(super().Process(*arguments, **options))
        return self.started[-1]


class _SameProcess(Executor):
    """Does what is submitted to it there and then."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future:
        future: Future = Future()
        future.set_result(function(*arguments, **options))
        return future


def _start_quiet_tracker() -> None:
    """Has Python's process that clears away semaphores after a kill do so without a warning on standard error."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def _start_worker(ending: Connection) -> None:
    for number in STOP_SIGNALS:  # a terminal sends them to all processes; the first decides
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(ending,), daemon=True).start()


def _end_with_parent(ending: Connection) -> None:
    """The other end of the pipe is in the parent alone, so it closes with it, however that ends."""
    with contextlib.suppress(EOFError, OSError):
        ending.recv_bytes()
    os._exit(1)


def in_order(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """Calls a function on items in an executor and yields the results in the items' order.

    Args:
        executor: `concurrent.futures.Executor`.
        function: callable of one item.
        items: iterable, read as far as needed.
        ahead: int. Items given to the executor before the first result is waited for.

    Yields:
        what the function returns.
    """
    pending = collections.deque()
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
# Seconds within which signals are one: a shell and the kernel both tell of a hang-up, `timeout` signals twice.
SAME_SIGNAL = 1.0

Handler = Callable[[int, types.FrameType | None], Any]


def handle_stop_signals(handler: Handler) -> dict[int, Any]:
    """Has a function called at each of the signals, but for a hang-up that is ignored, as nohup has it.

    Outside the main thread, which alone gets signals, it does nothing.

    Args:
        handler: callable of the signal's number and the interrupted frame.

    Returns:
        the handlers before by signal, for `restore_handlers`.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, handler)
    return before


def restore_handlers(handlers: Mapping[int, Any]) -> None:
    """Puts handlers back, by signal."""
    for number, handler in handlers.items():
        signal.signal(number, handler)
