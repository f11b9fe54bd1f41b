"""Memory of a process that takes and frees the same large blocks over and over.

`benchmarks/run.py` shows what it is worth: under JAX a quarter of a training step.
"""

import contextlib
import ctypes

from keras_encdec.backend.devices import name

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def keep_freed_memory(with_tensorflow: bool = False) -> None:
    """Has glibc keep what is freed, for the process to take again.

    By default blocks of many megabytes go back to the system at once, and each time they are taken
    again every page of them is cleared first. Does nothing without glibc.

    Args:
        with_tensorflow: bool. Whether under TensorFlow, too, which keeps much of its memory itself and trains and
            generates faster without. Defaults to `False`.
    """
    if name() == "tensorflow" and not with_tensorflow:
        return
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for option, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, (1 << 31) - 1)):
            mallopt(option, value)
