"""Settings of glibc for a process that allocates and frees the same large blocks again and again."""

import contextlib
import ctypes

from keras_encdec.backend.devices import name

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Makes glibc keep freed memory for the process instead of returning it to the system.

    By default glibc returns blocks of many megabytes at once, and the system clears every page when they are allocated
    again: up to a fifth of the time of a training step. Only the first of glibc's arenas can hold blocks of this size,
    so the number of arenas is 1. Under TensorFlow it is 2: its threads would wait for each other, and a small model
    trains a tenth faster with a second arena. Without glibc, nothing happens.
    """
    arenas = 2 if name() == "tensorflow" else 1
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for option, value in ((_ARENA_MAX, arenas), (_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, (1 << 31) - 1)):
            mallopt(option, value)
