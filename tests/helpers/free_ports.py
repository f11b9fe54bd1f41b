"""Ports of this machine that nothing listens on."""

import contextlib
import socket


def free_ports(number):
    """As many distinct free ports. Another process could take one before it is used, which is unlikely."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [each.getsockname()[1] for each in sockets]
