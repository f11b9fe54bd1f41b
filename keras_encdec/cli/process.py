"""A command's process: the signals that end it, and its standard streams."""

import contextlib
import gc
import os
import select
import signal
import sys
import threading
import time
import types
from typing import NoReturn

from keras_encdec.runtime.unfinished import remove_unfinished
from keras_encdec.runtime.workers import SAME_SIGNAL, STOP_SIGNALS, handle_stop_signals, restore_handlers

# Seconds that the main thread has to obey, before a program ends without it.
GRACE = 0.5
SENTENCE = "interrupted; no unfinished output is left."


class Interruption:
    """Ends the work in its `with` block at a signal, by an exception that lets it tidy up.

    A program is ended all the same where that takes long, in the middle of an import or of a call of a library. A
    training, which has handlers of its own, ends after the batch at work; where that takes long it is told. Outside
    the main thread, which alone gets signals, it does nothing.

    Args:
        program: str. Name of the command where the process is its own. Defaults to `None`: the process is somebody
            else's, and is not ended.
        sentence: str. Message shown when the program is ended. Defaults to `SENTENCE`.

    Attributes:
        number: int. The first signal that came; `None` before.
    """

    def __init__(self, program: str | None = None, sentence: str = SENTENCE) -> None:
        self.number: int | None = None
        self._program, self._sentence = program, sentence
        self._came, self._before, self._turn = 0.0, {}, threading.Lock()

    def __enter__(self) -> "Interruption":
        self._before = handle_stop_signals(self._stop)
        if not self._before:
            return self
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._stop)
        if self._program is not None:
            received, sent = os.pipe()
            os.set_blocking(sent, False)
            signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
            # Not descriptor 2, which is elsewhere while Keras is imported.
            threading.Thread(target=self._watch, args=(received, os.dup(2)), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)  # whose signal would end the process, once nobody handles it
        restore_handlers(self._before)

    def claim(self) -> None:
        """Lets the main thread tell how the command ended; it does not return where the program is being ended."""
        if not self._turn.acquire(blocking=False):
            threading.Event().wait()

    def _stop(self, number, frame):
        if number != signal.SIGALRM:
            if self.number is not None and time.monotonic() - self._came < SAME_SIGNAL:
                return  # nor is the tidying up interrupted
            self._came = time.monotonic()
            self.number = self.number or number
        if _must_not_be_interrupted(frame):
            signal.setitimer(signal.ITIMER_REAL, 0.01)  # once more, a moment later
        else:
            raise KeyboardInterrupt(self.number)

    def _watch(self, received, errors):
        """Runs in a thread, which learns of signals while the main thread is deep in a call of a library."""
        asked = False
        while True:
            number = os.read(received, 1)[0]
            if number not in STOP_SIGNALS:
                continue
            own = signal.getsignal(number) == self._stop
            time.sleep(GRACE)
            if own or asked:
                if self._turn.acquire(blocking=False):
                    remove_unfinished()
                    os.write(errors, f"{self._program}: {self._sentence}\n".encode())
                    os._exit(128 + number)
                return
            asked = True
            notice = "stopping after the batch at work, whose round is kept; another signal ends it at once."
            os.write(errors, f"{self._program}: {notice}\n".encode())
            if select.select([received], [], [], 0)[0]:
                os.read(received, 1 << 10)  # the same signal


def _must_not_be_interrupted(frame: types.FrameType | None) -> bool:
    """Whether an exception would be lost here, or worse.

    Python ignores exceptions in what the garbage collector calls, and JAX has such a callback. In the middle of an
    import, code in C++ may end the process at an exception that it does not expect.
    """
    if frame and frame.f_code in [getattr(callback, "__code__", None) for callback in gc.callbacks]:
        return True
    while frame:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


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
