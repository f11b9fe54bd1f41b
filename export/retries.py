"""Calls repeated until a server is there."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from keras_encdec.export.server_error import ServerError

# Seconds before the second call; each further wait is twice as long, up to the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0


class Retries:
    """Repeats calls that find the server UNAVAILABLE, with exponential backoff and jitter.

    Args:
        patience: float. Seconds for which a call is repeated; 0 for not at all.
    """

    def __init__(self, patience: float) -> None:
        self._patience, self._closed = patience, threading.Event()

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function.

        Args:
            function: callable.
            *arguments: its arguments.

        Returns:
            what the function returns.

        Raises:
            ServerError: another than UNAVAILABLE, at once; UNAVAILABLE when patience is over, or closed.
        """
        give_up, longest = time.monotonic() + self._patience, _FIRST_WAIT
        while True:
            try:
                return function(*arguments)
            except ServerError as error:
                left = give_up - time.monotonic()
                if error.code != "UNAVAILABLE" or left <= 0:
                    raise
                # Jitter, so that calls which failed together do not come again together.
                if self._closed.wait(min(left, random.uniform(longest / 2, longest))):
                    raise
            longest = min(2 * longest, _LONGEST_WAIT)

    def close(self) -> None:
        """Repeats no call any more, and ends the waits in other threads."""
        self._closed.set()
