"""What a server answers when it does not answer, and the sentences that report it."""

import os
import re
from typing import TYPE_CHECKING

from keras_encdec.errors import InputError

if TYPE_CHECKING:
    from keras_encdec.export.server_connection import Server

_LONGEST = 300
# What TensorFlow puts around an operation's own words.
_AROUND = re.compile(
    r"\{\{.*?\}\}|\[\[.*?\]\]|^\d+ root error\(s\) found\.|^\s*\(\d+\) \w+: |\bassertion failed: ", re.MULTILINE
)


class ServerError(Exception):
    """A call to a server that failed.

    Args:
        code: str. The name of gRPC's status code, such as "UNAVAILABLE", whichever protocol was spoken.
        message: str. What the server, or the library that called it, said.

    Attributes:
        code: str.
        message: str. The first line that says something, without what TensorFlow puts around it.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, _readable(message)
        super().__init__(f"{code}: {self.message}")

    def report(self, server: "Server", path: str | os.PathLike | None = None, line: int | None = None) -> InputError:
        """The sentence for the user.

        Args:
            server: Server.
            path: the input file. Defaults to `None`: the call was not about lines of a file.
            line: int. The first line that the call was about. Optional.

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
