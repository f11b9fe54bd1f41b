"""The interface of a client of a model on a server: its calls, their answers and their errors."""

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Protocol, TypedDict

import numpy as np

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError, cut


@dataclasses.dataclass(frozen=True)
class ModelName:
    """Name of a served model and, optionally, a version or a label. Without either, it is the latest version.

    Args:
        name: str.
        version: int. Not together with a label. Optional.
        label: str. Label of a version in the server's configuration. Optional.

    Raises:
        ConfigurationError: a ValueError, for a version together with a label, and for an empty name or label.

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
        for option, name in (("{model_name}", self.name), ("{label}", self.label)):
            if name == "":  # as from a shell variable that is not set
                raise ConfigurationError(f"found an empty {option}, expected a name")

    def __str__(self) -> str:
        version = "" if self.version is None else f", version {self.version}"
        label = "" if self.label is None else f", label {self.label!r}"
        return f"model {self.name!r}{version}{label}"


# TensorFlow Serving's messages in protocol buffers' JSON form.


class StatusProto(TypedDict, total=False):
    """The reason why a version is not available."""

    error_message: str


class ModelVersionStatus(TypedDict, total=False):
    """The state of a version, such as "AVAILABLE"."""

    version: str
    state: str
    status: StatusProto


class Dimension(TypedDict, total=False):
    """A dimension of a tensor; the size "-1" stands for any size."""

    size: str


class TensorShape(TypedDict, total=False):
    """The shape of a tensor."""

    dim: list[Dimension]
    unknown_rank: bool


class TensorInfo(TypedDict, total=False):
    """An input or output of a signature; the dtype is a name such as "DT_FLOAT"."""

    dtype: str
    tensor_shape: TensorShape


class SignatureDef(TypedDict, total=False):
    """The inputs and outputs of a signature by name."""

    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]


@dataclasses.dataclass(frozen=True)
class ModelStatus:
    """The versions of a model on a server. As text, one line for each version.

    Attributes:
        address: str, the server's address.
        model: ModelName of the request.
        versions: tuple of ModelVersionStatus.

    Example:

    >>> versions = ({"version": "2", "state": "END", "status": {"error_message": "out of memory"}},)
    >>> print(ModelStatus("localhost:8500", ModelName("encdec"), versions))
    version 2: END (out of memory)
    """

    address: str
    model: ModelName
    versions: tuple[ModelVersionStatus, ...]

    @property
    def is_available(self) -> bool:
        """Whether a version can be called."""
        return any(version["state"] == "AVAILABLE" for version in self.versions)

    def require_available(self) -> None:
        """Raises InputError if no version can be called."""
        if not self.is_available:
            found = f"found no AVAILABLE version of the {self.model} on the server at {self.address}"
            raise InputError(found, "", "wait until the server has loaded it, or see the server's log")

    def __str__(self) -> str:
        lines = []
        for version in self.versions:
            message = version.get("status", {}).get("error_message")
            lines.append(f"version {version['version']}: {version['state']}" + f" ({message})" * bool(message))
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class ServedSignatures:
    """The signatures of a model on a server.

    As text, one line for each signature, input and output; "?" stands for a dimension of any size.

    Attributes:
        version: int. The version that answered.
        signatures: dict from name to SignatureDef.

    Example:

    >>> shape = {"dim": [{"size": "-1"}, {"size": "8"}]}
    >>> print(ServedSignatures(1, {"encode": {"outputs": {"summary": {"dtype": "DT_FLOAT", "tensor_shape": shape}}}}))
    encode
      output  summary           float   (?, 8)
    """

    version: int
    signatures: Mapping[str, SignatureDef]

    def __str__(self) -> str:
        lines = []
        for name, signature in sorted(self.signatures.items()):
            if name.startswith("__saved_model"):
                continue  # TensorFlow's own signatures, which no client calls
            lines.append(name)
            for kind, tensors in (("input", signature.get("inputs", {})), ("output", signature.get("outputs", {}))):
                for tensor, info in sorted(tensors.items()):
                    dtype = info["dtype"].removeprefix("DT_").lower()
                    lines.append(f"  {kind:6}  {tensor:16}  {dtype:6}  {_shape(info.get('tensor_shape', {}))}")
        return "\n".join(lines)


def _shape(shape: TensorShape) -> str:
    if shape.get("unknown_rank"):
        return "any shape"
    sizes = [str(dimension.get("size", 0)) for dimension in shape.get("dim", [])]
    return f"({', '.join('?' if size == '-1' else size for size in sizes)})"


class Server(Protocol):
    """A client of a model on a server: `GrpcClient` or `RestClient`. Its methods may be called from several threads.

    Attributes:
        address: str.
        model: ModelName.
        deadline: float. Seconds that a call may take.
    """

    address: str
    model: ModelName
    deadline: float

    def predict(self, signature: str, inputs: dict[str, list[bytes]], outputs: list[str]) -> dict[str, np.ndarray]:
        """Calls a signature and returns its outputs by name. Raises ServerError when the call fails."""

    def metadata(self) -> tuple[int, dict[str, SignatureDef]]:
        """Returns the number of the version that answers and its signatures. Raises ServerError if the call fails."""

    def status(self) -> list[ModelVersionStatus]:
        """Returns the model's versions and their states. Raises ServerError when the call fails."""

    def close(self) -> None:
        """Cancels calls in other threads, and closes the connection."""


# Maximum length of a message, in characters.
_LONGEST = 300
# The parts of an error message that TensorFlow adds to an operation's own message.
_ADDED = re.compile(
    r"\{\{.*?\}\}|\[\[.*?\]\]|^\d+ root error\(s\) found\.|^\s*\(\d+\) \w+: |\bassertion failed: ", re.MULTILINE
)


class ServerError(Exception):
    """A failed call of a server.

    Args:
        code: str. Name of gRPC's status code, such as "UNAVAILABLE", for both protocols.
        message: str. Message of the server, or of the library that called it.

    Attributes:
        code: str.
        message: str. First non-empty line of the message, without the parts that TensorFlow adds.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, _readable(message)
        super().__init__(f"{code}: {self.message}")

    def report(self, server: Server, path: str | os.PathLike[str] | None = None, line: int | None = None) -> InputError:
        """Makes the error for the user, about a server, and about the first line of a file that the call scored."""
        expected, address = "", server.address
        if self.code == "UNAVAILABLE":
            found = f"found the server at {address} unavailable ({self.message})"
            remedy = "start it, check --server, or give a longer --patience to wait for it"
        elif self.code == "DEADLINE_EXCEEDED" and self.message.startswith("HTTP "):  # a status
            found = f"found no answer in time from the server behind the proxy at {address} ({self.message})"
            remedy = "raise the proxy's time limit" + " or give a smaller --batch_size" * (path is not None)
        elif self.code == "DEADLINE_EXCEEDED":
            found = f"found no answer from the server at {address} within {server.deadline:g} s"
            remedy = "give a longer --deadline" + " or a smaller --batch_size" * (path is not None)
        elif self.code == "NOT_FOUND":
            found = f"found no {server.model} on the server at {address} ({self.message})"
            remedy = "check --model_name, --version and --label; --health shows the versions"
        elif "version label" in self.message:
            found = f"found no {server.model} on the server at {address} ({self.message})"
            remedy = "check --label"
        elif re.search("maximum input batch size|HTTP 413", self.message) and line is None:
            # This is a load test, because scoring splits such requests down to a single line.
            found, remedy = f"found a request that the server refuses ({self.message})", "give a smaller --batch_size"
        elif self.code == "INVALID_ARGUMENT" and path is not None:
            found = f"found a pair that the server refuses ({self.message})"
            remedy = "repair or remove such pairs, or give --on_error=keep to count the refused requests"
            if line is not None:
                remedy = "repair or remove the line, or give --on_error=keep to write such lines with a neutral score"
        else:
            found = f"found the error {self.code} from the server at {address} ({self.message})"
            expected, remedy = "expected an answer", "check --server, and see the server's log"
        return InputError(found, expected, remedy, path, line)


def _readable(message: str) -> str:
    lines = (line.strip() for line in _ADDED.sub("", message).splitlines())
    line = next(filter(None, lines), "it gave no reason")
    if line.startswith("[") and line.endswith("]"):  # the message parts of a failed assertion
        line = line[1:-1].replace("] [", " ")
    return cut(line, _LONGEST).rstrip(".")
