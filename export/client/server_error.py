"""Failed calls to a server: their errors, the sentences that report them, and retries."""

import dataclasses
import os
import random
import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError

if TYPE_CHECKING:
    from keras_encdec.export.client.connection import Server


_LONGEST = 300
# What TensorFlow adds to an operation's own message.
_AROUND = re.compile(
    r"\{\{.*?\}\}|\[\[.*?\]\]|^\d+ root error\(s\) found\.|^\s*\(\d+\) \w+: |\bassertion failed: ", re.MULTILINE
)


class ServerError(Exception):
    """A call to a server that failed.

    Args:
        code: str. The name of gRPC's status code, such as "UNAVAILABLE", for both protocols.
        message: str. The message of the server, or of the library that called it.

    Attributes:
        code: str.
        message: str. The message's first line that is not empty, without what TensorFlow adds to it.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, _readable(message)
        super().__init__(f"{code}: {self.message}")

    def report(self, server: "Server", path: str | os.PathLike | None = None, line: int | None = None) -> InputError:
        """The error for the user.

        Args:
            server: Server.
            path: the input file. Defaults to `None`: the call did not score lines of a file.
            line: int. The first line that the call scored. Optional.

        Returns:
            InputError.
        """
        expected, address = "", server.address
        if self.code == "UNAVAILABLE":
            found = f"found the server at {address} unavailable ({self.message})"
            remedy = "start it, check --server, or give a longer --patience to wait for it"
        elif self.code == "DEADLINE_EXCEEDED":
            found = f"found no answer from the server at {address} within {server.deadline:g} s"
            remedy = "give a longer --deadline" + " or a smaller --batch_size" * (line is not None)
        elif self.code == "NOT_FOUND":
            found = f"found no {server.model} on the server at {address} ({self.message})"
            remedy = "check --model_name, --version and --label; --health shows the versions"
        elif "version label" in self.message:
            found = f"found no {server.model} on the server at {address} ({self.message})"
            remedy = "check --label"
        elif self.code == "INVALID_ARGUMENT" and line is not None:
            found = f"found a pair that the server refuses ({self.message})"
            remedy = "repair or remove the line, or give --on_error=keep to write such lines with a neutral score"
        else:
            found = f"found the error {self.code} of the server at {address} ({self.message})"
            expected, remedy = "expected an answer", "check --server, and see the server's log"
        return InputError(found, expected, remedy, path, line)


def _readable(message):
    lines = (line.strip() for line in _AROUND.sub("", message).splitlines())
    line = next(filter(None, lines), "it gave no reason")
    if line.startswith("[") and line.endswith("]"):  # the parts of a failed assertion
        line = line[1:-1].replace("] [", " ")
    return (line if len(line) <= _LONGEST else line[:_LONGEST] + "...").rstrip(".")


# Seconds before the second call. Each later wait is twice as long as the one before, up to the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0


class Retries:
    """Repeats calls that find the server UNAVAILABLE, with exponential backoff and jitter.

    Args:
        patience: float. Seconds for which a call is repeated; 0 for not at all.
    """

    def __init__(self, patience: float) -> None:
        self._patience, self._closed = patience, threading.Event()

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function until it succeeds or patience is over.

        Args:
            function: callable.
            *arguments: its arguments.

        Returns:
            the function's result.

        Raises:
            ServerError: any but UNAVAILABLE at once; UNAVAILABLE when patience is over, or after `close`.
        """
        give_up, longest = time.monotonic() + self._patience, _FIRST_WAIT
        while True:
            try:
                return function(*arguments)
            except ServerError as error:
                left = give_up - time.monotonic()
                if error.code != "UNAVAILABLE" or left <= 0:
                    raise
                # Jitter, so that calls that failed together are not repeated together.
                if self._closed.wait(min(left, random.uniform(longest / 2, longest))):
                    raise
            longest = min(2 * longest, _LONGEST_WAIT)

    def close(self) -> None:
        """Stops repeating calls, and ends the waits in other threads."""
        self._closed.set()


@dataclasses.dataclass(frozen=True)
class ModelName:
    """The name of a served model and, unless the latest version is meant, a version or a label.

    Args:
        name: str.
        version: int. Optional; not together with a label.
        label: str. A label of a version in the server's configuration. Optional.

    Raises:
        ConfigurationError: a ValueError, for a version together with a label.

    Example:

    >>> print(ModelName("encdec", version=3))
    model 'encdec', version 3
    """

    name: str
    version: int | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        if self.version is not None and self.label is not None:
            raise ConfigurationError("found {version} and {label}, expected one of them")

    def __str__(self) -> str:
        version = "" if self.version is None else f", version {self.version}"
        label = "" if self.label is None else f", label {self.label!r}"
        return f"model {self.name!r}{version}{label}"
