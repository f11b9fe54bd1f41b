"""The process of a command: signals that end it, its standard streams, and the warnings of libraries."""

import contextlib
import gc
import io
import logging
import os
import select
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Iterator
from typing import NoReturn, TextIO

from keras_encdec.errors import EncdecWarning
from keras_encdec.runtime.unfinished import remove_unfinished
from keras_encdec.runtime.workers import SAME_SIGNAL, STOP_SIGNALS, FormerHandler, handle_stop_signals, restore_handlers

# Seconds that the main thread has to react to a signal before another thread ends the process.
GRACE = 0.5
INTERRUPTED = "interrupted; no unfinished output is left."
STOPPING = "stopping after the current batch, with a checkpoint; another signal ends the training at once."
STOPPING_SERVER = "stopping after the requests that are running; another signal ends the server at once."


class Interruption:
    """Turns a stop signal into a KeyboardInterrupt in its `with` block, so that the work can clean up.

    If the exception does not end the work within `GRACE` seconds, for example in an import or a library call, the
    process is ended. Training and a server have their own handlers, and end after the current batch or requests; if
    that takes longer, a message says so. Outside the main thread, which alone receives signals, an Interruption does
    nothing.

    Args:
        program: str. Name of the command, if it has the process to itself. Defaults to `None`: the process runs other
            code, too, and is not ended.
        sentence: str. Message shown when the process is ended. Defaults to `INTERRUPTED`.
        notice: str. Message shown when work with its own handlers takes longer. Defaults to `STOPPING`, for training.

    Attributes:
        number: int. The first signal received; `None` before.
    """

    def __init__(self, program: str | None = None, sentence: str = INTERRUPTED, notice: str = STOPPING) -> None:
        self.number: int | None = None
        self._program, self._sentence, self._notice = program, sentence, notice
        self._received, self._ending = 0.0, threading.Lock()
        self._handlers: dict[int, FormerHandler] = {}

    def __enter__(self) -> "Interruption":
        self._handlers = handle_stop_signals(self._stop)
        if not self._handlers:
            return self
        self._handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._stop)
        if self._program is not None:
            received, sent = os.pipe()
            os.set_blocking(sent, False)
            signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
            # A copy of descriptor 2, which is redirected while Keras is imported.
            threading.Thread(target=self._watch, args=(received, os.dup(2)), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._handlers:
            signal.setitimer(signal.ITIMER_REAL, 0)  # without a handler, its signal would end the process
        restore_handlers(self._handlers)

    def claim(self) -> None:
        """Lets the main thread report how the command ended; never returns if `_watch` is ending the process."""
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()

    def _stop(self, number: int, frame: types.FrameType | None) -> None:
        if number != signal.SIGALRM:
            if self.number is not None and time.monotonic() - self._received < SAME_SIGNAL:
                return  # the same signal must not interrupt the clean-up
            self._received = time.monotonic()
            self.number = self.number or number
        if _must_not_be_interrupted(frame):
            signal.setitimer(signal.ITIMER_REAL, 0.01)  # try again a moment later
        else:
            raise KeyboardInterrupt(self.number)

    def _watch(self, received: int, errors: int) -> None:
        """Runs in a thread, which notices signals even while the main thread is in a library call.

        It reads the numbers of signals from one descriptor, and writes messages to another.
        """
        was_signalled = False
        while True:
            number = os.read(received, 1)[0]
            if number not in STOP_SIGNALS:
                continue
            own = signal.getsignal(number) == self._stop
            time.sleep(GRACE)
            if own or was_signalled:
                if self._ending.acquire(blocking=False):
                    remove_unfinished()
                    os.write(errors, f"{self._program}: {self._sentence}\n".encode())
                    os._exit(128 + number)
                return
            was_signalled = True
            os.write(errors, f"{self._program}: {self._notice}\n".encode())
            if select.select([received], [], [], 0)[0]:
                os.read(received, 1 << 10)  # the same signal


def _must_not_be_interrupted(frame: types.FrameType | None) -> bool:
    """Whether an exception raised here would be lost, or would crash the process.

    Python ignores exceptions in callbacks of the garbage collector, and JAX has such a callback. During an import, an
    unexpected exception may crash code in C++.
    """
    if frame and frame.f_code in [getattr(callback, "__code__", None) for callback in gc.callbacks]:
        return True
    while frame:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def occupy_closed_descriptors() -> None:
    """Opens the null device in place of each closed standard stream.

    A file that the command opens would otherwise get the number of the closed stream, and would be read or written in
    its place. Reading from a closed standard input and writing to a closed standard output still fail. Messages for a
    closed standard error are dropped; Python would print them on standard output.
    """
    # Input is opened for writing only, and output for reading only, so that their use fails.
    for descriptor, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def reader_closed_pipe(error: BrokenPipeError) -> bool:
    """Whether the reader of an output of the command has closed its pipe; False for a pipe between its processes."""
    return error.filename is not None or any(map(_pipe_is_closed, (1, 2)))


def say(message: object) -> None:
    """Prints a message for the user on standard error: standard output may be a result."""
    print(message, file=sys.stderr, flush=True)


def escape_unencodable() -> None:
    """Makes standard output escape characters that its encoding lacks, such as ± in ASCII, as standard error does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def drop_unwritten() -> None:
    """Drops printed text that cannot be written; Python would report the failure at exit."""
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def exit_by_sigpipe() -> NoReturn:
    """Ends the process by SIGPIPE, as other programs end if the reader of their output has closed it."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it by default
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPIPE})
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)


def _pipe_is_closed(descriptor: int) -> bool:
    """Whether a descriptor is a pipe that its reader has closed."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)  # without it, macOS reports nothing
    with contextlib.suppress(OSError):
        closed = select.POLLERR | select.POLLHUP  # on Linux, and on macOS
        return any(event & closed for _, event in poll.poll(0))
    return False


@contextlib.contextmanager
def quiet_libraries(command: str) -> Iterator[None]:
    """Hides warnings of the libraries, which do not help users of a command.

    Each warning of this package is printed as one sentence, like an error, whatever PYTHONWARNINGS says.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    loggers = [logging.getLogger(name) for name in ("absl", "tensorflow")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="keras(?!_encdec)|multiprocessing|tensorflow|jax|torch")
        warnings.simplefilter("default", EncdecWarning)
        show = warnings.showwarning

        def show_in_one_line(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if category is EncdecWarning:
                print(f"{command}: warning: {message}", file=sys.stderr)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = show_in_one_line
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
