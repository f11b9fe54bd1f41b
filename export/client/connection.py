"""A connection to a model on a server, by the protocol of its address."""

import re
from typing import Any, Protocol

from keras_encdec.configuration import ConfigurationError
from keras_encdec.export.client.server_error import ModelName, Retries

# Seconds that a call may take, and seconds for which a call that finds the server unavailable is repeated.
DEADLINE, PATIENCE = 30.0, 60.0
# Concurrent requests.
IN_FLIGHT = 16


class Server(Protocol):
    """A model on a server, as `GrpcClient` and `RestClient` call it. Methods may be called from several threads.

    Attributes:
        address: str.
        model: ModelName.
        deadline: float. Seconds that a call may take.
    """

    address: str
    model: ModelName
    deadline: float

    def predict(self, signature: str, inputs: dict[str, list[bytes]], outputs: list[str]) -> dict[str, Any]:
        """Calls a signature and returns its outputs by name. Raises ServerError when the call fails."""

    def metadata(self) -> tuple[int, dict[str, Any]]:
        """The number of the version that answers, and its signatures. Raises ServerError when the call fails."""

    def status(self) -> list[dict[str, Any]]:
        """The model's versions, each a ModelVersionStatus. Raises ServerError when the call fails."""

    def close(self) -> None:
        """Cancels calls in other threads, and closes the connection."""


def is_url(address: str) -> bool:
    """Whether an address is a REST URL, such as "http://localhost:8501", and not a gRPC one, "localhost:8500"."""
    return address.startswith(("http://", "https://"))


def is_server_address(address: str) -> bool:
    """Whether a server can be called at an address: host:port, a URL, or a socket, "unix:..."."""
    parts = re.fullmatch(r"(?:https?://)?[^/]+?(?::(\d+))?/?", address)
    port = parts and parts[1]
    return address.startswith("unix:") or bool(parts and (port or is_url(address)) and int(port or 1) <= 65535)


def connect(address: str, model: ModelName, deadline: float = DEADLINE, connections: int = IN_FLIGHT) -> Server:
    """A client of a model on a server; it calls nothing yet.

    Args:
        address: str. host:port for gRPC, a URL for REST.
        model: ModelName.
        deadline: float. Seconds that a call may take. Defaults to `30.0`.
        connections: int. Number of REST connections that are kept open. Defaults to `16`.

    Raises:
        ConfigurationError: a ValueError, for a text that is not an address.
        ImportError: when the protocol's libraries are not installed.
    """
    if not is_server_address(address):
        raise ConfigurationError("found {server}=%s, expected host:port, or http://host:port for REST", address)
    # Only one client is imported: the libraries of the other need not be installed.
    if is_url(address):
        from keras_encdec.export.client.rest_client import RestClient

        return RestClient(address, model, deadline, connections)
    from keras_encdec.export.client.grpc_client import GrpcClient

    return GrpcClient(address, model, deadline)


def labelled_version(server: Server, retries: Retries) -> ModelName:
    """The model with the number of the version that answers now, though its label may move or a newer version come."""
    # The status of a model lists all its versions, whatever label is asked for; its metadata are of one version.
    version, _ = retries(server.metadata)
    return ModelName(server.model.name, version)
