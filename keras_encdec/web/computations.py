"""What the model computes for several requests: one after another."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any

# Requests that wait at most; TensorFlow uses all processors for the one at work.
MOST_WAITING = 32


class ReplacedError(Exception):
    """A newer request of the same page has taken this one's place before it began."""


class BusyError(Exception):
    """Too many requests are waiting."""


class Computations:
    """Runs functions in one thread, in the order in which they came.

    While somebody types, requests come faster than they are answered: a newer one takes the place of the waiting one
    with the same key, which nobody looks at any more.
    """

    def __init__(self) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "computations")
        self._latest: dict[Any, concurrent.futures.Future] = {}
        self._waiting = 0

    def submit(self, function: Callable[[], Any]) -> concurrent.futures.Future:
        """Has a function run after those that wait: a Future of what it returns. For threads that may wait."""
        return self._executor.submit(function)

    async def run(self, function: Callable[[], Any], key: Any = None) -> Any:
        """Runs a function after those that wait.

        Args:
            function: callable without arguments.
            key: hashable. Who asks for what; the waiting function of the same key is dropped. Defaults to `None`:
                none is.

        Returns:
            what the function returns.

        Raises:
            ReplacedError: when a newer one came with the same key before this one began.
            BusyError: when too many wait.
        """
        if self._waiting >= MOST_WAITING and key not in self._latest:
            raise BusyError
        job = self._executor.submit(function)
        if key is not None:
            if older := self._latest.get(key):
                older.cancel()  # which does nothing to one that runs
            self._latest[key] = job
        self._waiting += 1
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if key is not None and self._latest.get(key) is not job:
                raise ReplacedError from None
            raise
        finally:
            self._waiting -= 1
            if self._latest.get(key) is job:
                del self._latest[key]

    def close(self) -> None:
        """Drops what waits."""
        self._executor.shutdown(wait=False, cancel_futures=True)
