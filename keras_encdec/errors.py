"""Errors and warnings that say in a sentence what the user can do."""

import contextlib
import errno
import os
from collections.abc import Iterator

# Longer text is cut where an error quotes it.
_MAX_QUOTED = 80
# What was found and what was expected are cut if they are longer.
_MAX_PART = 700
# A path in a file's contents may have any length; a path of a file system has at most 4,096 bytes.
_MAX_PATH = 1000


def quoted(found: str | bytes) -> str:
    r"""Quotes text that was found in a file, for an error: in quotation marks, and cut if it is long.

    Args:
        found: str or bytes. Bytes that are not UTF-8 and invisible characters are written as backslash escapes.

    Example:

    >>> print(quoted(b"caf\xe9"), quoted("1" * 5000))  # doctest: +ELLIPSIS
    "caf\xe9" "1111...1..." (5,000 characters)
    """
    text = found.decode("utf-8", "backslashreplace") if isinstance(found, bytes) else found
    return f'"{shortened(text)}"' + (f" ({len(text):,} characters)" if len(text) > _MAX_QUOTED else "")


def shortened(name: str, length: int = _MAX_QUOTED) -> str:
    """Prepares text from a file for an error: without quotation marks, and cut after `length` characters."""
    return _printable(cut(name, length))


def cut(text: str, length: int) -> str:
    """Cuts text after `length` characters; three dots stand for the rest."""
    return text[:length] + "..." * (len(text) > length)


def _printable(text: str) -> str:
    """Replaces unprintable characters with backslash escapes.

    They could move a terminal's cursor, reverse its text or end its line.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, as Python reads it with surrogateescape
        return f"\\x{ord(character) - 0xDC00:x}"
    return character.encode("unicode_escape").decode()


class InputError(Exception):
    """Error about bad input: where it is, what was found, what was expected, and what to do.

    Commands print it as one sentence and exit with status 1; library users catch it.

    Args:
        found: str. What was found, starting in lower case ("found 3 scores").
        expected: str. What was expected ("expected 4 as on line 1"). Optional.
        remedy: str. What the user can do ("repair or remove the line"). Optional.
        path: file or directory at fault. Optional.
        line: int. Line number at fault, from 1. Optional.

    Example:

    >>> print(InputError("found 3 scores", "expected 4", "repair the line", path="table.gz", line=7))
    table.gz, line 7: found 3 scores, expected 4; repair the line.
    """

    def __init__(
        self,
        found: str,
        expected: str = "",
        remedy: str = "",
        path: str | os.PathLike[str] | None = None,
        line: int | None = None,
    ) -> None:
        self.found, self.expected, self.remedy = found, expected, remedy
        self.path, self.line = path, line
        shown = "" if path is None else cut(shown_path(f"{path}"), _MAX_PATH)
        place = shown if line is None else f"{shown}, line {line}"
        # A broken file may contain 70,000 characters in place of a short name.
        sentence = ", ".join(cut(part, _MAX_PART) for part in (found, expected) if part)
        sentence = "; ".join(part for part in (sentence, remedy) if part)
        # Files and other programs may have put any characters into the sentence, and into the names of files.
        super().__init__(_printable(f"{place}: {sentence}." if place else f"{sentence}."))

    def __reduce__(self) -> tuple[type, tuple]:
        """Pickles the arguments of the constructor, so that an error from another process stays the same."""
        return type(self), (self.found, self.expected, self.remedy, self.path, self.line)


FilePath = str | os.PathLike[str]

# The URLs of remote folders, by the path of their copies on this machine.
_remote_names: dict[str, str] = {}


def name_in_errors(folder: str, url: str) -> None:
    """Makes errors name a file in a temporary copy of a remote folder by its URL."""
    _remote_names[folder] = url


def shown_path(path: FilePath) -> str:
    """Returns a path as errors name it: for a file in a copy of a remote folder, its URL."""
    path = os.fspath(path)
    for folder, url in _remote_names.items():
        if path == folder or path.startswith(folder + os.sep):
            return url + path[len(folder) :]
    return path


class EncdecWarning(UserWarning):
    """Warning about input that works, but probably not as the user intends.

    Its sentence says what was found and what to do. Commands print it.
    """


#: Number of the error: (what was found, what to do). Other errors are reported in the system's own words.
EXPLANATIONS = {
    errno.ENOENT: ("found no such file or directory", "check the path"),
    errno.EEXIST: ("found a file of this name", "remove it or name another path"),
    errno.ENOTDIR: ("found a file where the path needs a directory", "check the path"),
    errno.EISDIR: ("found a directory", "name a file"),
    errno.EACCES: ("found that permission is denied", "change the permissions or name another path"),
    errno.EPERM: ("found that permission is denied", "change the permissions or name another path"),
    errno.EROFS: ("found a read-only file system", "name a path on another one"),
    errno.ENAMETOOLONG: ("found a name that is too long for the file system", "name a shorter path"),
    errno.ENOSPC: ("found the disk full", "free space or name a path on another disk, and run again"),
    errno.EDQUOT: ("found the disk quota used up", "free space or name a path elsewhere, and run again"),
    errno.EMFILE: ("found too many open files", "raise the limit (ulimit -n), and run again"),
    errno.EFBIG: ("found that the file exceeds the size limit", "raise the limit (ulimit -f), and run again"),
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
        BrokenPipeError: instead of a `BrokenPipeError`, with the path.

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
        found, remedy = EXPLANATIONS.get(error.errno or 0, system)
        raise InputError(f"{found} when trying {doing}", "", remedy, path=path, line=line) from error


def not_defined(part: object, name: str) -> NotImplementedError:
    """Makes the error of a base class for a method or property that a subclass has to define.

    Example:

    >>> not_defined(1, "step")
    NotImplementedError('found int without step, expected a class that defines it')
    """
    return NotImplementedError(f"found {type(part).__name__} without {name}, expected a class that defines it")
