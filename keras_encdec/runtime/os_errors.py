"""Turns errors of the operating system into sentences that a user can act on."""

import contextlib
import errno
import os
from collections.abc import Iterator

from keras_encdec.errors import InputError

FilePath = str | os.PathLike[str]


# Number of the error: (what was found, what to do). Other errors are reported in the system's own words.
_EXPLANATIONS = {
    errno.ENOENT: ("found no such file or directory", "check the path"),
    errno.ENOTDIR: ("found a file where the path needs a directory", "check the path"),
    errno.EISDIR: ("found a directory", "name a file"),
    errno.EACCES: ("found no permission", "change the permissions or name another path"),
    errno.EPERM: ("found no permission", "change the permissions or name another path"),
    errno.EROFS: ("found a read-only file system", "name a path on another one"),
    errno.ENAMETOOLONG: ("found a name that is too long for the file system", "name a shorter path"),
    errno.ENOSPC: ("found the disk full", "free space or name a path on another disk, and run again"),
    errno.EDQUOT: ("found the disk quota used up", "free space or name a path elsewhere, and run again"),
    errno.EFBIG: ("found the file larger than is allowed here", "raise the limit (ulimit -f), and run again"),
}


@contextlib.contextmanager
def explained(path: FilePath, doing: str, line: int | None = None) -> Iterator[None]:
    """Turns an `OSError` in the `with` block into an `InputError`.

    Args:
        path: the file or directory to name.
        doing: str. What the block does, such as "to read a file" or "to write".
        line: int. Line number to name. Optional.

    Raises:
        InputError: instead of an `OSError`.
        BrokenPipeError: instead of itself, with the path.

    Example:

    >>> with explained("out.gz", "to write"):  # doctest: +ELLIPSIS
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
        ...
    keras_encdec.errors.InputError: out.gz: found the disk full when trying to write; free space ...
    """
    try:
        yield
    except BrokenPipeError as error:
        raise BrokenPipeError(error.errno, error.strerror, os.fspath(path)) from None
    except OSError as error:
        system = (f"found a system error ({error.strerror or error})", "check the disk and the path")
        found, remedy = _EXPLANATIONS.get(error.errno or 0, system)
        raise InputError(f"{found} when trying {doing}", "", remedy, path=path, line=line) from error
