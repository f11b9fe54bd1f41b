"""Work done side by side, results in order."""

import collections
import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

Item, Result = TypeVar("Item"), TypeVar("Result")


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
