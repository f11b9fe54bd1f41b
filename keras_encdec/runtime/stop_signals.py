"""The signals that ask a job to end."""

import signal
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Seconds within which signals are one: a shell and the kernel both tell of a hang-up, `timeout` signals twice.
SAME_SIGNAL = 1.0

Handler = Callable[[int, types.FrameType | None], Any]


def handle_stop_signals(handler: Handler) -> dict[int, Any]:
    """Has a function called at each of the signals, but for a hang-up that is ignored, as nohup has it.

    Outside the main thread, which alone gets signals, it does nothing.

    Args:
        handler: callable of the signal's number and the interrupted frame.

    Returns:
        the handlers before by signal, for `restore_handlers`.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, handler)
    return before


def restore_handlers(handlers: Mapping[int, Any]) -> None:
    """Puts handlers back, by signal."""
    for number, handler in handlers.items():
        signal.signal(number, handler)
