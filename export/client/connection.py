"""Connects to a server by gRPC or REST, depending on its address, repeats failed calls, and asks what it serves."""

import contextlib
import dataclasses
import re
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.errors import EncdecWarning, FilePath
from keras_encdec.export.client.model_server import ModelName, ModelStatus, ServedSignatures, Server, ServerError
from keras_encdec.export.versions import MAX_VERSION
from keras_encdec.formats import ColumnKind, format_names
from keras_encdec.runtime.imports import check_extra
from keras_encdec.scoring.scoring_options import ColumnOptions
from keras_encdec.task_options import EncodingOption

if TYPE_CHECKING:
    import tenacity

# Seconds that a call may take; seconds for which a call is repeated while the server is unavailable.
DEADLINE, PATIENCE = 30.0, 60.0
# Number of concurrent requests.
IN_FLIGHT = 16


@dataclasses.dataclass(frozen=True)
class ConnectionOptions(Configuration):
    """Which model on a server to call, and how long a call may take: options of `server_health` and `server_metadata`.

    Raises:
        ConfigurationError: a ValueError, for a version together with a label.
    """

    model_name: str = hyperparameter("encdec", "Name of the model on the server.", group="server")
    version: int | None = hyperparameter(
        None,
        "Version of the model. Default: the server's choice, the latest.",
        minimum=1,
        maximum=MAX_VERSION,
        group="server",
    )
    label: str | None = hyperparameter(None, "Label of the version, such as stable.", group="server")
    deadline: float = hyperparameter(DEADLINE, "Seconds that a call may take.", minimum=1e-3, group="server")
    patience: float | None = hyperparameter(
        None,
        "Seconds for which calls are repeated while the server is unavailable, with growing pauses. Default: 60; 0 "
        "with --health.",
        minimum=0.0,
        group="server",
    )

    @property
    def model(self) -> ModelName:
        """The model to call."""
        return ModelName(self.model_name, self.version, self.label)

    @property
    def longest_wait(self) -> float:
        """Seconds for which a call that needs an available model is repeated."""
        return PATIENCE if self.patience is None else self.patience

    def check(self) -> None:
        ModelName(self.model_name, self.version, self.label)  # raises for a version together with a label


@dataclasses.dataclass(frozen=True)
class ClientOptions(EncodingOption, ColumnOptions, ConnectionOptions):
    """Options of `score_file_with_server`."""

    format: str = hyperparameter(
        "phrase_table",
        "Format of the input. A phrase table gets probabilities as new scores, a TSV file gets ln p in new columns.",
        choices=lambda: format_names(ColumnKind.LOG_PROB, has_source_file=False),
    )
    on_error: str = hyperparameter(
        "stop",
        "What to do with a line that is malformed or that the server refuses: stop the command (stop), or write the "
        "line with a neutral score, or unchanged if it has no field for it, and count it (keep).",
        choices=("stop", "keep"),
    )
    batch_size: int = hyperparameter(64, "Pairs per request.", minimum=1)
    in_flight: int = hyperparameter(IN_FLIGHT, "Concurrent requests.", minimum=1)
    unknown_count: bool = hyperparameter(
        False,
        "Add the number of target words outside the shortlist: n is written as e^n in a phrase table, as n in TSV.",
        group="columns to add",
    )


def is_rest_url(address: str) -> bool:
    """Whether an address is a REST URL, such as "http://localhost:8501", and not a gRPC one, "localhost:8500"."""
    return address.startswith(("http://", "https://"))


def is_server_address(address: str) -> bool:
    """Whether a string is the address of a server: host:port, a URL, or a socket, "unix:..."."""
    parts = re.fullmatch(r"(?:https?://)?[^/?#]+?(?::(\d+))?(/(?!/)[^?#]*)?", address)
    if address.startswith("unix:"):
        return True
    if parts is None:
        return False
    port, path = parts.groups(default="")
    if is_rest_url(address):
        return int(port or 1) <= 65535 and "/v1/models" not in path
    return bool(port) and int(port) <= 65535 and path in ("", "/")


def connect(address: str, model: ModelName, deadline: float = DEADLINE, connections: int = IN_FLIGHT) -> Server:
    """Makes a client of a model on a server, without calling the server.

    Args:
        address: str. host:port for gRPC, a URL for REST, with the path of a proxy if the server is below one.
        model: ModelName.
        deadline: float. Seconds that a call may take. Defaults to `30.0`.
        connections: int. Number of REST connections that are kept open. Defaults to `16`.

    Raises:
        ConfigurationError: a ValueError, for an invalid address.
        ImportError: if the protocol's libraries are not installed.
    """
    if not is_server_address(address):
        raise ConfigurationError("found {server}=%s, expected host:port, or http://host:port for REST", address)
    # Only the client that is needed is imported: the libraries of the other may be missing.
    if is_rest_url(address):
        check_extra("serving", "Calling a server by REST", "requests")
        from keras_encdec.export.client.rest_client import RestClient

        return RestClient(address, model, deadline, connections)
    from keras_encdec.export.client.grpc_client import GrpcClient

    return GrpcClient(address, model, deadline)


# Limits of the pauses after failed calls, in seconds: of the first pause, and of any pause. The limit doubles with each
# failure, from the former to the latter.
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 5.0


def retrying(patience: float, closed: threading.Event | None = None, address: str = "") -> "tenacity.Retrying":
    """Makes a policy that repeats calls while the server is UNAVAILABLE, as in `retrying(60.0)(server.metadata)`.

    The pauses between calls grow exponentially, with jitter. Other errors are raised immediately.

    Args:
        patience: float. Seconds for which a call is repeated; 0 to call once.
        closed: threading.Event that ends the pauses: the calls then fail with CANCELLED. Optional.
        address: str. Address of the server, for a warning (`EncdecWarning`) after the first call that finds it
            unavailable. Defaults to no warning.

    Returns:
        tenacity.Retrying, which several threads may call.

    Raises:
        ImportError: if tenacity is not installed.
    """
    check_extra("serving", "Calling a server", "tenacity")
    import tenacity

    event = closed or threading.Event()

    def sleep(seconds: float) -> None:
        if event.wait(seconds):
            raise ServerError("CANCELLED", "the connection was closed")

    def warn(state: "tenacity.RetryCallState") -> None:
        if address and state.attempt_number == 1:
            waiting = f"the server at {address} is not available; trying again for up to {patience:g} s."
            warnings.warn(waiting, EncdecWarning, stacklevel=2)

    # Half of each pause is fixed and half is random. Without jitter, calls that failed at the same time would all be
    # repeated at the same time.
    half, longest_half = _FIRST_PAUSE / 2, _MAX_PAUSE / 2
    pause = tenacity.wait_exponential(half, longest_half) + tenacity.wait_random_exponential(half, longest_half)
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, ServerError) and error.code == "UNAVAILABLE"),
        # The last pause is shortened, so that the last call comes when the patience ends.
        wait=lambda state: min(pause(state), patience - (state.seconds_since_start or 0.0)),
        stop=tenacity.stop_after_delay(patience),
        sleep=sleep,
        before_sleep=warn,
        reraise=True,
    )


def labelled_version(server: Server, retries: "tenacity.Retrying") -> ModelName:
    """Asks which version answers now, and returns the model with this version's number in place of a label.

    Later calls then reach the same version, even if the label moves or a newer version is loaded.
    """
    # The status lists all versions of the model, even if a label is given. The metadata are those of one version.
    version, _ = retries(server.metadata)
    return ModelName(server.model.name, version)


@contextlib.contextmanager
def connected(address: str, options: ConnectionOptions, path: FilePath | None = None) -> Iterator[Server]:
    """Opens a connection for the `with` block, and turns its ServerErrors into InputErrors, about the file if given."""
    with contextlib.closing(connect(address, options.model, options.deadline)) as server:
        try:
            yield server
        except ServerError as error:
            raise error.report(server, path) from error


@contextlib.contextmanager
def connected_to_version(address: str, options: ClientOptions, path: FilePath | None = None) -> Iterator[Server]:
    """Opens a connection like `connected`, but to the number of the version that answers now."""
    with connected(address, options, path) as server:
        model = labelled_version(server, retrying(options.longest_wait, address=address))
        with contextlib.closing(connect(address, model, options.deadline, options.in_flight)) as numbered:
            yield numbered


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
