"""Connects to a model on a server by the protocol of its address: gRPC or REST."""

import re
from typing import Any, Protocol

from numpy.typing import ArrayLike

from keras_encdec.configuration import ConfigurationError
from keras_encdec.export.client.server_error import ModelName, Retries

# Seconds that a call may take; seconds for which a call is repeated while the server is unavailable.
DEADLINE, PATIENCE = 30.0, 60.0
# Number of concurrent requests.
IN_FLIGHT = 16


class Server(Protocol):
    """A client of a model on a server: `GrpcClient` or `RestClient`. Methods may be called from several threads.

    Attributes:
        address: str.
        model: ModelName.
        deadline: float. Seconds that a call may take.
    """

    address: str
    model: ModelName
    deadline: float

    def predict(self, signature: str, inputs: dict[str, list[bytes]], outputs: list[str]) -> dict[str, ArrayLike]:
        """Calls a signature and returns its outputs by name. Raises ServerError when the call fails."""

    def metadata(self) -> tuple[int, dict[str, Any]]:
        """Returns the number of the version that answers and its signatures. Raises ServerError if the call fails."""

    def status(self) -> list[dict[str, Any]]:
        """Returns the model's versions, each a ModelVersionStatus. Raises ServerError when the call fails."""

    def close(self) -> None:
        """Cancels calls in other threads, and closes the connection."""


def is_url(address: str) -> bool:
    """Whether an address is a REST URL, such as "http://localhost:8501", and not a gRPC one, "localhost:8500"."""
    return address.startswith(("http://", "https://"))


def is_server_address(address: str) -> bool:
    """Whether a text is the address of a server: host:port, a URL, or a socket, "unix:..."."""
    parts = re.fullmatch(r"(?:https?://)?[^/]+?(?::(\d+))?/?", address)
    port = parts and parts[1]
    return address.startswith("unix:") or bool(parts and (port or is_url(address)) and int(port or 1) <= 65535)


def connect(address: str, model: ModelName, deadline: float = DEADLINE, connections: int = IN_FLIGHT) -> Server:
    """Makes a client of a model on a server, without calling the server.

    Args:
        address: str. host:port for gRPC, a URL for REST.
        model: ModelName.
        deadline: float. Seconds that a call may take. Defaults to `30.0`.
        connections: int. Number of REST connections that are kept open. Defaults to `16`.

    Raises:
        ConfigurationError: a ValueError, for an invalid address.
        ImportError: when the protocol's libraries are not installed.
    """
    if not is_server_address(address):
        raise ConfigurationError("found {server}=%s, expected host:port, or http://host:port for REST", address)
    # Only the client that is needed is imported: the libraries of the other may be missing.
    if is_url(address):
        from keras_encdec.export.client.rest_client import RestClient

        return RestClient(address, model, deadline, connections)
    from keras_encdec.export.client.grpc_client import GrpcClient

    return GrpcClient(address, model, deadline)


def labelled_version(server: Server, retries: Retries) -> ModelName:
    """Asks which version answers now, and returns the model with this version's number in place of a label.

    Later calls then reach the same version, even if the label moves or a newer version is loaded.
    """
    # The status lists all versions of the model, even if a label is given. The metadata are those of one version.
    version, _ = retries(server.metadata)
    return ModelName(server.model.name, version)
