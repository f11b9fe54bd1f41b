"""A connection to a model on a server, by the protocol that the address asks for."""

import re
from typing import Any, Protocol

from keras_encdec.configuration import ConfigurationError
from keras_encdec.export.client.server_error import ModelName, Retries

# Seconds that a call may take, and for which one that finds the server unavailable is repeated.
DEADLINE, PATIENCE = 30.0, 60.0
# Requests side by side.
IN_FLIGHT = 16


class Server(Protocol):
    """A model on a server: what `GrpcServer` and `RestServer` have. Methods may be called side by side.

    Attributes:
        address: str.
        model: ModelName.
        deadline: float. Seconds that a call may take.
    """

    address: str
    model: ModelName
    deadline: float

    def predict(self, signature: str, inputs: dict[str, list[bytes]], outputs: list[str]) -> dict[str, Any]:
        """The outputs of a signature, by name. Raises ServerError when the call fails."""

    def metadata(self) -> tuple[int, dict[str, Any]]:
        """Which version answers, and its signatures. Raises ServerError when the call fails."""

    def status(self) -> list[dict[str, Any]]:
        """The model's versions, each a ModelVersionStatus. Raises ServerError when the call fails."""

    def close(self) -> None:
        """Ends calls that are under way in other threads, and the connection."""


def is_url(address: str) -> bool:
    """Whether an address is that of REST, such as "http://localhost:8501", and not of gRPC, "localhost:8500"."""
    return address.startswith(("http://", "https://"))


def is_server_address(address: str) -> bool:
    """Whether a server can be called at an address: host:port, a URL, or a socket, "unix:..."."""
    parts = re.fullmatch(r"(?:https?://)?[^/]+?(?::(\d+))?/?", address)
    port = parts and parts[1]
    return address.startswith("unix:") or bool(parts and (port or is_url(address)) and int(port or 1) <= 65535)


def connect(address: str, model: ModelName, deadline: float = DEADLINE, connections: int = IN_FLIGHT) -> Server:
    """A model on a server; nothing is called yet.

    Args:
        address: str. host:port for gRPC, a URL for REST.
        model: ModelName.
        deadline: float. Seconds that a call may take. Defaults to `30.0`.
        connections: int. Of REST, connections that are kept open. Defaults to `16`.

    Raises:
        ConfigurationError: a ValueError, for what is no address.
        ImportError: when the protocol's libraries are not installed.
    """
    if not is_server_address(address):
        raise ConfigurationError("found {server}=%s, expected host:port, or http://host:port for REST", address)
    # One of them is imported, so that the other's libraries need not be installed.
    if is_url(address):
        from keras_encdec.export.client.rest_client import RestServer

        return RestServer(address, model, deadline, connections)
    from keras_encdec.export.client.grpc_client import GrpcServer

    return GrpcServer(address, model, deadline)


def labelled_version(server: Server, retries: Retries) -> ModelName:
    """The version that is meant now, by its number: a label may be moved meanwhile, and a newer version come."""
    # A server says which versions there are whatever label it is asked for: only what it serves tells.
    version, _ = retries(server.metadata)
    return ModelName(server.model.name, version)
