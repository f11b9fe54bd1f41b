"""How the peer of TensorFlow Serving refuses a request: with the status and the words of the stock server."""

import grpc
import tensorflow as tf

# As in the stock server: longer messages do not fit into the metadata that gRPC clients accept.
_MESSAGE_LIMIT = 1024
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_HTTP_STATUSES = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


class Refusal(Exception):
    """A request, version or configuration that is not accepted.

    Args:
        code: str. Name of a `grpc.StatusCode`.
        message: str. What the client reads.
    """

    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = grpc.StatusCode[code], message


def refusal(error):
    """Converts an exception to a refusal.

    Args:
        error: Exception. A `Refusal`, an error of TensorFlow, or anything else.

    Returns:
        Refusal.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, tf.errors.OpError):
        return Refusal(_CODES[error.error_code].name, error.message)
    if isinstance(error, OSError):  # how TensorFlow's Python reports a damaged SavedModel
        return Refusal("DATA_LOSS", str(error))
    return Refusal("INTERNAL", f"{type(error).__name__}: {error}")


def grpc_status(error):
    """Returns the code and the details for a gRPC client, cut to the length at which the stock server cuts them."""
    refused = refusal(error)
    # The message may quote what a client sent, which need not be text.
    message = refused.message.encode(errors="replace").decode()
    return refused.code, message if len(message) <= _MESSAGE_LIMIT else message[:_MESSAGE_LIMIT] + "...TRUNCATED"


def http_status(error):
    """Returns the status code and the message for a REST client."""
    refused = refusal(error)
    return _HTTP_STATUSES.get(refused.code, 500), refused.message
