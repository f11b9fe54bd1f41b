"""Memory of a process that takes and frees the same large blocks over and over."""

import contextlib
import ctypes

from keras_encdec.backend.devices import name

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Has glibc keep what is freed, for the process to take again.

    By default blocks of many megabytes go back to the system at once, and each time they are taken
    again every page of them is cleared first: up to a fifth of a training step. Only the first of glibc's
    arenas can hold blocks of this size, so there is no other, but under TensorFlow, whose threads would
    wait for each other: training a small model is a tenth faster with a second. Does nothing without glibc.
    """
    arenas = 2 if name() == "tensorflow" else 1
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for option, value in ((_ARENA_MAX, arenas), (_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, (1 << 31) - 1)):
            mallopt(option, value)
