"""Asks a server for a model's versions, their states, and the model's signatures."""

import contextlib
import dataclasses
from collections.abc import Mapping

from keras_encdec.errors import InputError
from keras_encdec.export.client.connection import ConnectionOptions, connect, connected, labelled_version, retrying
from keras_encdec.export.client.model_server import ModelName, ModelVersionStatus, SignatureDef, TensorShape


def _shape(shape: TensorShape) -> str:
    if shape.get("unknown_rank"):
        return "any shape"
    sizes = [str(dimension.get("size", 0)) for dimension in shape.get("dim", [])]
    return f"({', '.join('?' if size == '-1' else size for size in sizes)})"


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


def server_health(server: str, options: ConnectionOptions | None = None, **values: object) -> ModelStatus:
    """Asks a server for the versions of a model and their states.

    Args:
        server: str. Address of TensorFlow Serving: host:port for gRPC; for REST a URL, such as
            "http://localhost:8501".
        options: ConnectionOptions. Without a version or a label, the answer lists all versions. The default patience
            is `0.0` seconds. Defaults to `None`: the defaults of the command.
        **values: options by name, which override those in `options`.

    Raises:
        InputError: if the server does not answer, or has no such model, version or label.
        ConfigurationError: a ValueError, for an invalid address, or a version together with a label.
    """
    options = ConnectionOptions.combined(options, values)
    retries = retrying(options.patience or 0.0, address=server)
    with connected(server, options) as client:
        if options.label is None:
            return ModelStatus(server, options.model, tuple(retries(client.status)))
        labelled_model = labelled_version(client, retries)
        with contextlib.closing(connect(server, labelled_model, options.deadline)) as labelled:
            return ModelStatus(server, options.model, tuple(retries(labelled.status)))


def server_metadata(server: str, options: ConnectionOptions | None = None, **values: object) -> ServedSignatures:
    """Asks a server for the signatures of a model.

    The arguments and errors are those of `server_health`; the default patience is `60.0` seconds.
    """
    options = ConnectionOptions.combined(options, values)
    retries = retrying(options.longest_wait, address=server)
    with connected(server, options) as client:
        return ServedSignatures(*retries(client.metadata))
