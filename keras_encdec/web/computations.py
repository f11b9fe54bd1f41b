"""Runs the computations with the model one after another, and counts the requests of each address."""

import asyncio
import collections
import concurrent.futures
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_Result = TypeVar("_Result")

# Maximum number of waiting requests. They run one at a time because each uses all processors.
MAX_WAITING = 32


class Computations:
    """Runs functions in a single thread, in the order in which they arrive.

    While a user types, requests arrive faster than they are processed. A newer request replaces a waiting request with
    the same key, whose response would be out of date.
    """

    def __init__(self) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "computations")
        self._latest: dict[Hashable, concurrent.futures.Future[Any]] = {}
        self._waiting = 0

    def submit(self, function: Callable[[], _Result]) -> concurrent.futures.Future[_Result]:
        """Queues a function, and returns a Future of its result. For callers outside the event loop."""
        return self._executor.submit(function)

    async def run(self, function: Callable[[], _Result], key: Hashable = None) -> _Result:
        """Queues a function, and waits for its result.

        Args:
            function: callable without arguments.
            key: hashable. It names the page and the endpoint. A waiting function with the same key is cancelled.
                Defaults to `None`: no function is cancelled.

        Returns:
            the result of the function.

        Raises:
            ReplacedError: if a newer function with the same key arrived before this one began.
            BusyError: if too many functions are waiting.
        """
        if self._waiting >= MAX_WAITING and key not in self._latest:
            raise BusyError
        job = self._executor.submit(function)
        if key is not None:
            if older := self._latest.get(key):
                older.cancel()  # has no effect on a running function
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
        """Cancels the functions that are waiting."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class ReplacedError(Exception):
    """A newer request of the same page replaced this one before it began."""


class BusyError(Exception):
    """Too many requests are waiting."""


# Seconds over which requests are counted.
MINUTE = 60.0


class RequestRate:
    """Counts the requests of each address within the last minute, and allows a limited number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._times: dict[str, collections.deque[float]] = {}

    def wait(self, address: str) -> float:
        """Counts a request from an address and returns 0, or returns the seconds to wait if the limit is reached."""
        now = time.monotonic()
        if address not in self._times:  # forget addresses without recent requests
            self._times = {name: times for name, times in self._times.items() if times[-1] > now - MINUTE}
        times = self._times.setdefault(address, collections.deque())
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) >= self._limit:
            return times[0] + MINUTE - now
        times.append(now)
        return 0.0
