"""The standard streams of a program, of which one or its reader may be closed."""

import contextlib
import os
import select
import signal
import sys
from typing import NoReturn


def occupy_closed_descriptors() -> None:
    """Keeps the descriptors 0, 1 and 2 from other files where a standard stream is closed.

    A file that the command opens would otherwise get such a number, and would be read or written instead of the stream.
    Reading from a closed standard input and writing to a closed standard output still fail. Messages for a closed
    standard error are dropped; Python would print them on the standard output.
    """
    # The input can only be written and the output only be read, so that their use fails.
    for descriptor, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # the system gives it the lowest free number
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def is_end_of_reading(error: BrokenPipeError) -> bool:
    """Whether the reader of an output has closed its pipe; False for a pipe between processes of a job."""
    return error.filename is not None or any(map(_is_unread, (1, 2)))


def flush_standard_output() -> None:
    """Flushes standard output, so that a failure is reported here and not by Python at exit."""
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_unwritten() -> None:
    """Drops what was printed and cannot be written; Python would report it at exit."""
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def end_as_unread() -> NoReturn:
    """Ends the process by SIGPIPE, as other programs end when nobody reads their output any longer."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it by default
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPIPE})
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)


def _is_unread(descriptor):
    poll = select.poll()
    poll.register(descriptor, 0)
    with contextlib.suppress(OSError):
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False
