"""The socket that the web server listens on, opened without the libraries that the server needs."""

import os
import socket

from keras_encdec.errors import InputError


def listening_socket(host: str, port: int) -> socket.socket:
    """Opens a listening socket. `serve` does so before it loads the model, to report a taken port at once.

    Args:
        host: str. Name or address of this machine.
        port: int. 0 for any free port.

    Raises:
        InputError: if the port is taken or may not be used, or the address belongs to no network of this machine.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise InputError(
            f"cannot listen on {host}, port {port} ({reason})",
            "expected an address of this machine and a free port",
            "give another --port or --host",
        ) from error


def check_can_listen(host: str, port: int) -> None:
    """Checks that a server can listen, before Keras is imported.

    Args:
        host, port: see `listening_socket`.

    Raises:
        InputError: see `listening_socket`.
    """
    listening_socket(host, port).close()
