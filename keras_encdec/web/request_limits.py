"""Limits the size and the rate of requests."""

import collections
import dataclasses
import time

from keras_encdec.configuration import Configuration, hyperparameter

# Seconds over which requests are counted.
MINUTE = 60.0


@dataclasses.dataclass(frozen=True)
class RequestLimits(Configuration):
    """Limits of requests.

    Args:
        max_words: int. Largest number of words of a phrase or sentence. Defaults to `60`.
        requests_per_minute: int. Largest number of API requests from an address within a minute. Defaults to `600`.
    """

    max_words: int = hyperparameter(60, "Largest number of words of a phrase or sentence.", minimum=1)
    requests_per_minute: int = hyperparameter(
        600, "Largest number of requests from an address within a minute.", minimum=1
    )

    @property
    def max_characters(self) -> int:
        """Largest number of characters of a phrase or sentence: 20 for each word."""
        return 20 * self.max_words

    @property
    def max_bytes(self) -> int:
        """Largest number of bytes of a request: two texts, with at most 12 bytes (two JSON escapes) per character."""
        return 1024 + 24 * self.max_characters


class RequestRate:
    """Counts the requests of each address within the last minute.

    Args:
        limit: int. Largest number of requests from an address in a minute.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._times: dict[str, collections.deque[float]] = {}

    def wait(self, address: str) -> float:
        """Counts a request from an address if it is within the limit.

        Args:
            address: str.

        Returns:
            float. Seconds until the request would be within the limit; 0 if it already is.
        """
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
