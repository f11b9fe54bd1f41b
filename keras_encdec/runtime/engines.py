"""Engines that process shards: in this process, in several processes of this machine, or on a Ray cluster."""

import contextlib
import itertools
import os
import pickle
import queue
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Protocol, TypeVar

from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.runtime.shards import Shard, ShardResult
from keras_encdec.runtime.workers import OWN_PROGRAM, available_processors, child_processes, threads

Work = Callable[[Shard], ShardResult]
#: Loads models, and returns the function that processes shards. An engine pickles it and sends it to each worker, which
#: calls it once, for its first shard.
WorkOpener = Callable[[], Work]
# How often a worker that dies is replaced before its shard is assumed to be the cause.
RETRIES = 2
Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Processes shards."""

    def run(self, opener: WorkOpener, shards: Iterable[Shard]) -> Iterator[tuple[Shard, ShardResult]]:
        """Yields each shard with its result, in the order in which they are done.

        It reads only a few shards ahead of the results that the caller has taken.

        Raises:
            InputError: if the work raises it, or workers died repeatedly at the same shard.
        """


def completed(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[tuple[Item, Result]]:
    """Calls a function on items in an executor, and yields items and results in the order in which they are done.

    At most `ahead` items are submitted and not yet yielded.
    """
    pending: dict[Future[Result], Item] = {}

    def done() -> Iterator[tuple[Item, Result]]:
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            yield pending.pop(future), future.result()

    try:
        for item in items:
            pending[executor.submit(function, item)] = item
            if len(pending) >= ahead:
                yield from done()
        while pending:
            yield from done()
    finally:
        for future in pending:
            future.cancel()


class ThisProcess:
    """Engine that processes two shards at a time, in threads of this process.

    While the models compute on one, the lines of the other are split into words or written. The work must therefore be
    safe to call from several threads.
    """

    def run(self, opener: WorkOpener, shards: Iterable[Shard]) -> Iterator[tuple[Shard, ShardResult]]:
        """See `Engine`."""
        opened: list[Work] = []
        lock = threading.Lock()

        def work(shard: Shard) -> ShardResult:
            with lock:
                if not opened:  # only when it is needed: all shards may be done already
                    opened.append(opener())
            return opened[0](shard)

        with threads(2) as executor:
            yield from completed(executor, work, shards, ahead=3)


class LocalProcesses:
    """Engine that works in processes of this machine, each with its share of the processors.

    If a process is killed, for example because memory is short, another one takes its place and processes its shard
    again.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def run(self, opener: WorkOpener, shards: Iterable[Shard]) -> Iterator[tuple[Shard, ShardResult]]:
        """See `Engine`."""
        with contextlib.ExitStack() as stack:
            executor = stack.enter_context(threads(self._number))
            idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
            for processors in _shares(self._number):
                # The workers end before the threads, which wait for them.
                idle.put(stack.enter_context(_Worker(opener, processors)))

            def work(shard: Shard) -> ShardResult:
                worker = idle.get()
                try:
                    return worker.call(shard)
                finally:
                    idle.put(worker)

            yield from completed(executor, work, shards, self._number + 2)


def _shares(number: int) -> list[list[int]]:
    """Divides the processors that this process may use; with more processes than processors, some share one."""
    known = hasattr(os, "sched_getaffinity")
    usable = sorted(os.sched_getaffinity(0)) if known else list(range(available_processors()))
    bounds = [len(usable) * i // number for i in range(number + 1)]
    return [usable[start:end] or [usable[start]] for start, end in itertools.pairwise(bounds)]


class _Worker(contextlib.AbstractContextManager["_Worker"]):
    """A process that processes shards, one at a time, and is replaced when it dies.

    Its libraries start a thread for each of the processors that it may use.
    """

    def __init__(self, opener: WorkOpener, processors: list[int]) -> None:
        self._opener, self._processors = opener, processors
        self._process = contextlib.ExitStack()
        self._ended = False
        self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended = True
        self._process.__exit__(kind, error, traceback)

    def call(self, shard: Shard) -> ShardResult:
        """Processes a shard; raises InputError if the work does, or if the process died with it several times."""
        for _ in range(1 + RETRIES):
            try:
                result, notices = self._executor.submit(_work, shard).result()
            except BrokenProcessPool:
                if self._ended:
                    raise
                self._process.close()
                self._start()
            else:
                for notice in notices:
                    warnings.warn(notice, EncdecWarning, stacklevel=2)
                return result
        raise died(shard)

    def _start(self) -> None:
        started = child_processes(1, _begin, pickle.dumps(self._opener), self._processors)
        self._executor = self._process.enter_context(started)


def died(shard: Shard) -> InputError:
    """Makes the error for a shard at which workers died repeatedly."""
    found = f"found that the process at work on {shard} was killed {1 + RETRIES} times"
    expected = "expected enough memory for it"
    remedy = f"look at these lines, free memory, or use fewer processes; finished shards are kept; {OWN_PROGRAM}"
    return InputError(found, expected, remedy, shard.parts[0].path)


# In a process of `LocalProcesses`: the pickled opener, and the work once the first shard has arrived.
_opener = b""
_opened: list[Work] = []


def _begin(opener: bytes, processors: list[int]) -> None:
    global _opener
    _opener = opener
    # Set before the opener's modules are imported: their libraries start a thread for each processor that they may use.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, processors)


def _work(shard: Shard) -> tuple[ShardResult, list[str]]:
    """Processes a shard, and returns its result and the warnings that the package gave when it opened the work.

    The caller shows these warnings, so that equal warnings of several workers appear only once.
    """
    notices = []
    if not _opened:  # not in `_begin`, whose errors would not reach the caller
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default", EncdecWarning)  # the caller decides what is shown
            _opened.append(pickle.loads(_opener)())
        for each in caught:
            if each.category is EncdecWarning:
                notices.append(str(each.message))
            else:
                warnings.showwarning(each.message, each.category, each.filename, each.lineno)
    return _opened[0](shard), notices
