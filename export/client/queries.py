"""What a server says of a model: its versions and their states, its signatures."""

import contextlib
import dataclasses
from collections.abc import Iterable
from typing import Any

from keras_encdec.errors import InputError
from keras_encdec.export.client.connection import DEADLINE, PATIENCE, connect, labelled_version
from keras_encdec.export.client.server_error import ModelName, Retries, ServerError


def describe_status(versions: Iterable[dict[str, Any]]) -> str:
    """The versions of a model and their states.

    Args:
        versions: list of ModelVersionStatus, each a dict in protocol buffers' JSON form.

    Returns:
        str, a line a version.

    Example:

    >>> print(describe_status([{"version": "2", "state": "END", "status": {"error_message": "out of memory"}}]))
    version 2: END (out of memory)
    """
    lines = []
    for version in versions:
        message = version.get("status", {}).get("error_message")
        lines.append(f"version {version['version']}: {version['state']}" + f" ({message})" * bool(message))
    return "\n".join(lines)


def describe_signatures(signatures: dict[str, Any]) -> str:
    """The signatures of a model, their inputs and outputs.

    Args:
        signatures: dict of name to SignatureDef, as a dict in protocol buffers' JSON form.

    Returns:
        str, a line a signature, an input and an output; "?" is a dimension that calls choose.

    Example:

    >>> shape = {"dim": [{"size": "-1"}, {"size": "8"}]}
    >>> print(describe_signatures({"encode": {"outputs": {"summary": {"dtype": "DT_FLOAT", "tensor_shape": shape}}}}))
    encode
      output  summary           float   (?, 8)
    """
    lines = []
    for name, signature in sorted(signatures.items()):
        if name.startswith("__saved_model"):
            continue  # TensorFlow's own, which nobody calls
        lines.append(name)
        for kind in ("input", "output"):
            for tensor, info in sorted(signature.get(kind + "s", {}).items()):
                dtype = info["dtype"].removeprefix("DT_").lower()
                lines.append(f"  {kind:6}  {tensor:16}  {dtype:6}  {_shape(info.get('tensor_shape', {}))}")
    return "\n".join(lines)


def _shape(shape):
    if shape.get("unknown_rank"):
        return "any shape"
    sizes = [str(dimension.get("size", 0)) for dimension in shape.get("dim", [])]
    return f"({', '.join('?' if size == '-1' else size for size in sizes)})"


@dataclasses.dataclass(frozen=True)
class ModelStatus:
    """The versions of a model on a server.

    Attributes:
        address: str, the server's.
        model: ModelName that was asked for.
        versions: tuple of ModelVersionStatus, each a dict in protocol buffers' JSON form.
    """

    address: str
    model: ModelName
    versions: tuple[dict[str, Any], ...]

    @property
    def is_available(self) -> bool:
        """Whether a version answers."""
        return any(version["state"] == "AVAILABLE" for version in self.versions)

    def require_available(self) -> None:
        """Raises InputError unless a version answers."""
        if not self.is_available:
            found = f"found no version AVAILABLE of the {self.model} on the server at {self.address}"
            raise InputError(found, "", "wait until it is loaded, or see the server's log")

    def __str__(self) -> str:
        return describe_status(self.versions)


@dataclasses.dataclass(frozen=True)
class ServedSignatures:
    """The signatures of a model on a server.

    Attributes:
        version: int. The version that answered.
        signatures: dict of name to SignatureDef, as a dict in protocol buffers' JSON form.
    """

    version: int
    signatures: dict[str, Any]

    def __str__(self) -> str:
        return describe_signatures(self.signatures)


def server_health(
    server: str,
    model_name: str = "encdec",
    version: int | None = None,
    label: str | None = None,
    deadline: float = DEADLINE,
    patience: float = 0.0,
) -> ModelStatus:
    """Asks a server which versions of a model it has, and in which states they are.

    Args:
        server: str. Where TensorFlow Serving listens: host:port for gRPC; for REST a URL, such as
            "http://localhost:8501".
        model_name: str. Defaults to `"encdec"`.
        version: int. The version to ask for. Defaults to `None`: all.
        label: str. The label of the version to ask for, instead. Optional.
        deadline: float. Seconds that a call may take. Defaults to `30.0`.
        patience: float. Seconds for which a call that finds the server unavailable is repeated. Defaults to `0.0`.

    Returns:
        ModelStatus.

    Raises:
        InputError: when the server does not answer, or has no such model, version or label.
        ValueError: for what is no address, or a version together with a label.
    """
    model, retries = ModelName(model_name, version, label), Retries(patience)
    with _reported(server, model, deadline) as asked:
        if label is None:
            return ModelStatus(server, model, tuple(retries(asked.status)))
        with contextlib.closing(connect(server, labelled_version(asked, retries), deadline)) as labelled:
            return ModelStatus(server, model, tuple(retries(labelled.status)))


def server_metadata(
    server: str,
    model_name: str = "encdec",
    version: int | None = None,
    label: str | None = None,
    deadline: float = DEADLINE,
    patience: float = PATIENCE,
) -> ServedSignatures:
    """Asks a server for the signatures of a model.

    The arguments and errors are those of `server_health`, but for the patience, `60.0` seconds.

    Returns:
        ServedSignatures.
    """
    with _reported(server, ModelName(model_name, version, label), deadline) as asked:
        return ServedSignatures(*Retries(patience)(asked.metadata))


@contextlib.contextmanager
def _reported(address, model, deadline):
    """A connection for the time of the `with` block, whose errors become sentences."""
    with contextlib.closing(connect(address, model, deadline)) as server:
        try:
            yield server
        except ServerError as error:
            raise error.report(server) from error
