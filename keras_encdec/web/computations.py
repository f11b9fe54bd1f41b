"""Runs what the model computes for several requests, one request after another."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any

# Largest number of waiting requests. One runs at a time, as TensorFlow uses all processors for it.
MOST_WAITING = 32


class ReplacedError(Exception):
    """A newer request of the same page took the place of this one before it began."""


class BusyError(Exception):
    """Too many requests are waiting."""


class Computations:
    """Runs functions in one thread, in the order in which they came.

    While a user types, requests come faster than answers. A newer request takes the place of a waiting one with the
    same key, whose answer is out of date.
    """

    def __init__(self) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "computations")
        self._latest: dict[Any, concurrent.futures.Future] = {}
        self._waiting = 0

    def submit(self, function: Callable[[], Any]) -> concurrent.futures.Future:
        """Runs a function after those that wait; returns a Future of its result. For callers outside the event loop."""
        return self._executor.submit(function)

    async def run(self, function: Callable[[], Any], key: Any = None) -> Any:
        """Runs a function after those that wait.

        Args:
            function: callable without arguments.
            key: hashable. Who asks for what. A waiting function with the same key is dropped. Defaults to `None`: none
                is dropped.

        Returns:
            what the function returns.

        Raises:
            ReplacedError: when a newer function with the same key came before this one began.
            BusyError: when too many functions wait.
        """
        if self._waiting >= MOST_WAITING and key not in self._latest:
            raise BusyError
        job = self._executor.submit(function)
        if key is not None:
            if older := self._latest.get(key):
                older.cancel()  # does nothing to one that is running
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
        """Drops the functions that wait."""
        self._executor.shutdown(wait=False, cancel_futures=True)
