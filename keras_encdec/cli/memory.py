"""Memory of a command that takes and frees the same large blocks over and over."""

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def keep_freed_memory():
    """Has glibc keep what is freed, for the process to take again.

    By default blocks of many megabytes go back to the system at once, and each time they are taken
    again every page of them is cleared first. Does nothing without glibc.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for option, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, (1 << 31) - 1)):
            mallopt(option, value)
