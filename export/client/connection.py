"""Connects to a model on a server by the protocol of its address: gRPC or REST."""

import re
import threading
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import ArrayLike

from keras_encdec.configuration import ConfigurationError
from keras_encdec.export.client.server_error import ModelName, ServerError

if TYPE_CHECKING:
    import tenacity

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


# The longest pauses after the first failed call and after any later one, in seconds. Each is twice as long as the
# previous one.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


def retrying(patience: float, closed: threading.Event | None = None) -> "tenacity.Retrying":
    """Makes what repeats calls while the server is UNAVAILABLE: `retrying(60.0)(server.predict, ...)`.

    The pauses between calls grow exponentially, with jitter. Other errors are raised at once.

    Args:
        patience: float. Seconds for which a call is repeated; 0 to call once.
        closed: threading.Event that ends the pauses: the calls then fail with CANCELLED. Optional.

    Returns:
        tenacity.Retrying, which several threads may call.

    Raises:
        ImportError: when tenacity is not installed.
    """
    try:
        import tenacity
    except ImportError as error:
        raise ImportError(f"Calling a server needs tenacity ({error}): pip install 'keras-encdec[serving]'.") from error
    event = closed or threading.Event()

    def sleep(seconds: float) -> None:
        if event.wait(seconds):
            raise ServerError("CANCELLED", "the connection was closed")

    # A pause is between half of its greatest length and all of it. Without jitter, calls that failed at the same time
    # would all be repeated at the same time.
    half, longest_half = _FIRST_PAUSE / 2, _LONGEST_PAUSE / 2
    pause = tenacity.wait_exponential(half, longest_half) + tenacity.wait_random_exponential(half, longest_half)
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, ServerError) and error.code == "UNAVAILABLE"),
        # The last call comes when the patience is over, not a pause later.
        wait=lambda state: min(pause(state), patience - (state.seconds_since_start or 0.0)),
        stop=tenacity.stop_after_delay(patience),
        sleep=sleep,
        reraise=True,
    )


def labelled_version(server: Server, retries: "tenacity.Retrying") -> ModelName:
    """Asks which version answers now, and returns the model with this version's number in place of a label.

    Later calls then reach the same version, even if the label moves or a newer version is loaded.
    """
    # The status lists all versions of the model, even if a label is given. The metadata are those of one version.
    version, _ = retries(server.metadata)
    return ModelName(server.model.name, version)
