"""The three descriptors that a program is started with, where somebody closed one or its other end."""

import contextlib
import os
import select
import signal
import sys
from typing import NoReturn


def occupy_closed_descriptors() -> None:
    """Has no other file get the number of a standard stream that is closed, as it would be read or written for it.

    Reading from such an input, and writing to such an output, fails as before; what is said on the standard error is
    dropped, and not printed on the standard output, where Python sends it.
    """
    for descriptor, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):  # the first two of no use
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest number that is free
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def is_end_of_reading(error: BrokenPipeError) -> bool:
    """Whether a pipe is broken as nobody reads an output any longer, and not one between processes of a job."""
    return error.filename is not None or any(map(_is_unread, (1, 2)))


def flush_standard_output() -> None:
    """Writes what was printed, while a failure can still be told: at the end of the process Python tells it."""
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_unwritten() -> None:
    """Drops what was printed and cannot be written, of which Python would tell at the end of the process."""
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def end_as_unread() -> NoReturn:
    """Ends the process by the signal that ends other programs whose output nobody reads any longer."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPIPE})
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)


def _is_unread(descriptor):
    poll = select.poll()
    poll.register(descriptor, 0)
    with contextlib.suppress(OSError):
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False
