"""The three descriptors that a program is started with, where whoever started it closed one."""

import os
import sys


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
