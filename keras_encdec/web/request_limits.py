"""Limits of what clients may ask of the server."""

import collections
import dataclasses
import time

from keras_encdec.configuration import Configuration, hyperparameter

# Seconds over which requests are counted.
MINUTE = 60.0


@dataclasses.dataclass(frozen=True)
class RequestLimits(Configuration):
    """Bounds of requests.

    Args:
        max_words: int. Words of a phrase or sentence. Defaults to `60`.
        requests_per_minute: int. Requests to the API from one address within a minute. Defaults to `600`.
    """

    max_words: int = hyperparameter(60, "Words of a phrase or sentence, at most.", minimum=1)
    requests_per_minute: int = hyperparameter(600, "Requests from one address within a minute, at most.", minimum=1)

    @property
    def max_characters(self) -> int:
        """Characters of a phrase or sentence, twenty for each word."""
        return 20 * self.max_words

    @property
    def max_bytes(self) -> int:
        """Bytes of a request: of two texts, each character of which may be written as two escapes of six."""
        return 1024 + 24 * self.max_characters


class RequestRate:
    """Counts the requests of each address within the last minute.

    Args:
        limit: int. Requests of an address in a minute, at most.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._times: dict[str, collections.deque[float]] = {}

    def wait(self, address: str) -> float:
        """Counts another request of an address, if it is within the limit.

        Args:
            address: str.

        Returns:
            float. Seconds until the request would be within the limit; 0 if it is.
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
