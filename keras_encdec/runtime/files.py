"""Reads lines of plain and gzipped files, and writes files that appear only when they are complete."""

import contextlib
import dataclasses
import errno
import hashlib
import io
import os
import stat
import weakref
from collections.abc import Generator, Iterator
from typing import ClassVar, Self

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.runtime.remote import (
    RemoteInput,
    RemoteOutput,
    check_remote_readable,
    check_remote_writable,
    is_remote_file,
    remote_exists,
)
from keras_encdec.runtime.streams import GZIP_MAGIC, BrokenGzip, CountedFile, GzipStream, OutputFile, decompressed
from keras_encdec.runtime.unfinished import temporary_beside
from keras_encdec.runtime.urls import is_url

_BLOCK = 1 << 17
STANDARD_STREAM = "-"
STANDARD_OUTPUT = "/dev/stdout"
# Longer than any line of text. Without a limit, a file that is not text could be read into memory as one line.
_LONGEST_LINE = 1 << 26


@dataclasses.dataclass(frozen=True)
class FilePart:
    """Consecutive lines of a file in memory, which `InputLines` reads in place of the file.

    Attributes:
        path: the path of the file, as errors name it.
        first_line: int. Number of the first of the lines in the file, from 1.
        data: bytes. The lines, uncompressed, with their line feeds.
    """

    path: str
    first_line: int
    data: bytes

    def __fspath__(self) -> str:
        return self.path


class InputLines:
    r"""The lines of a plain or gzipped file, as bytes.

    The first two bytes of the file, not its name, decide whether it is gzipped. A line ends with a line feed, which is
    not part of the line; a carriage return is. The file is read once, in blocks, so that the memory does not depend on
    its size. Use it as a context manager, or call `close`.

    Args:
        path: the file, or its URL; "-" is the standard input; or a FilePart.

    Attributes:
        path: the path of the file, as errors name it.
        line_number: int. Number of the last line yielded, from 1.
        bytes_read: int. Bytes read so far of the file on disk; compressed bytes if it is gzipped.
        bytes_total: int. Size of the file on disk, 0 when it is a pipe.
        ended_with_newline: bool. Whether the last line had a line feed; `None` until all lines are read.

    Raises:
        InputError: from the constructor, if the file is missing, a directory, unreadable or empty, or is the standard
            input that another InputLines is reading; during iteration, if compressed data are truncated or corrupt,
            with the number of the line where they break off.

    Example:

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "lines.gz")
    ...     with open_output(path) as file:
    ...         _ = file.write(b"one\ntwo\r\nthree")
    ...     with InputLines(path) as lines:
    ...         print(list(lines), lines.line_number, lines.ended_with_newline)
    [b'one', b'two\r', b'three'] 3 False
    """

    # The lines of the standard input that were opened last: two readers at once would get alternate blocks.
    _standard_input: ClassVar["weakref.ref[InputLines] | None"] = None

    def __init__(self, path: FilePath) -> None:
        self.path, self.line_number = path, 0
        self.ended_with_newline: bool | None = None
        self._file: io.IOBase
        self._raw: CountedFile | RemoteInput | None
        self._blocks: Iterator[bytes]
        if isinstance(path, FilePart):
            self._open_part(path)
        else:
            self._open_file(path)
        self._lines = self._iterate()

    def _open_part(self, part: FilePart) -> None:
        self.path, self.line_number = part.path, part.first_line - 1
        self._file, self._raw = io.BytesIO(), None
        self.bytes_total = len(part.data)
        self._block, self._blocks = part.data, iter([])

    def _open_file(self, path: FilePath) -> None:
        standard = path == STANDARD_STREAM
        if standard:
            path = self.path = "standard input"
            self._check_read_once()
        if is_url(path):
            self._raw = RemoteInput(os.fspath(path))
            self.bytes_total = self._raw.size
        else:
            with explained(path, "to read a file"):
                self._raw = CountedFile(os.dup(0) if standard else path, "rb")
                status = os.fstat(self._raw.fileno())
            self.bytes_total = status.st_size if stat.S_ISREG(status.st_mode) else 0
        file: io.BufferedReader = io.BufferedReader(self._raw, _BLOCK)
        self._file = file
        try:
            with explained(path, "to read a file"):
                gzipped = file.peek(2)[:2] == GZIP_MAGIC
            self._blocks = decompressed(file, _BLOCK) if gzipped else iter(lambda: file.read1(_BLOCK), b"")
            self._block = self._read()
            if not self._block:
                remedy = (
                    "it can be read only once; check what is piped into it" if standard else "check how it was made"
                )
                raise InputError("found an empty file", "expected at least one line", remedy, path=path)
        except InputError:
            file.close()
            raise
        if standard:
            InputLines._standard_input = weakref.ref(self)

    @property
    def bytes_read(self) -> int:
        return self._raw.count if self._raw else self.bytes_total

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. No further lines are read."""
        self._lines.close()
        self._file.close()

    def _check_read_once(self) -> None:
        other = InputLines._standard_input and InputLines._standard_input()
        if other and not other._file.closed:
            raise InputError(
                "found - as the name of two inputs",
                "expected one, because standard input can be read only once",
                "give the name of a file for the other",
                self.path,
            )

    def _read(self) -> bytes:
        place = self.line_number + 1
        try:
            with explained(self.path, "to read", place):
                return next(self._blocks, b"")
        except BrokenGzip as error:
            expected, remedy = "expected a complete gzip file", "copy or make the file again"
            raise InputError(error.found, expected, remedy, self.path, place) from error

    def _iterate(self) -> Generator[bytes]:
        number, pending, held = self.line_number, [], 0
        block, self._block = self._block, b""
        while block:
            lines = block.split(b"\n")
            if len(lines) > 1:
                pending.append(lines[0])
                lines[0] = b"".join(pending)
                pending, held = [lines.pop()], 0
                for line in lines:
                    number += 1
                    self.line_number = number
                    yield line
            else:
                pending.append(block)
                held += len(block)
                if held > _LONGEST_LINE:
                    raise InputError(
                        f"found a line of more than {_LONGEST_LINE >> 20} MiB",
                        "expected lines of text",
                        "name a text file, plain or gzipped",
                        path=self.path,
                        line=number + 1,
                    )
            block = self._read()
        rest = b"".join(pending)
        self.ended_with_newline = not rest
        if rest:
            self.line_number = number + 1
            yield rest


def unequal_lines(first: InputLines, second: InputLines) -> InputError:
    """Makes the error for two files with different numbers of lines. It reads both to the end to count them."""
    counts = [_count_to_end(lines) for lines in (first, second)]
    return InputError(
        f"found {counts[0]} lines, and {counts[1]} lines in {second.path}",
        "expected the same number",
        "make the n-th line of the targets the translation of the n-th line of the sources",
        path=first.path,
    )


def _count_to_end(lines: InputLines) -> int:
    for _ in lines:
        pass
    return lines.line_number


@contextlib.contextmanager
def open_output(path: FilePath, keep: bool = True) -> Iterator[io.BufferedWriter]:
    """Opens a file for writing that appears under its name only when it is complete.

    The data go to a hidden file in the same directory. At the end of the `with` block the hidden file is flushed to the
    disk and renamed. If the block raises an exception, the hidden file is removed, and an existing file at `path` stays
    unchanged. If the process is killed, the hidden file stays until another process writes to `path`. A device, a pipe
    and the standard output are written to directly. A remote file appears by the store's own commit, or by a rename.

    Args:
        path: the file, or its URL; "-" is the standard output. The file is compressed if its name ends in `.gz`; equal
            content gives equal bytes.
        keep: bool. Whether to keep the file. If not, it is written as usual and removed at the end. Defaults to `True`.

    Yields:
        a buffered binary file, open for writing.

    Raises:
        InputError: at the start of the block, if the directory is missing or not writable or `path` is a directory;
            later, if the disk is full or writing fails for another reason.
        BrokenPipeError: if the reader of a pipe has closed it, as `| head` does.
    """
    path = os.fspath(path)
    if is_url(path):
        with _open_remote_output(path, keep) as writer:
            yield writer
        return
    if path == STANDARD_STREAM:
        path = STANDARD_OUTPUT
    # A symbolic link is kept: the file that it points to is replaced.
    final, temporary = os.path.realpath(path), None
    with contextlib.ExitStack() as stack:
        with explained(path, "to write a file"):
            mode = stat.S_IFREG
            with contextlib.suppress(FileNotFoundError):
                mode = os.stat(path).st_mode
            if stat.S_ISDIR(mode) or not os.path.basename(path):
                raise IsADirectoryError(errno.EISDIR, "Is a directory")
            if path == STANDARD_OUTPUT and keep:
                # Not opened by name: if the shell redirects the output to a file, that file would be replaced.
                descriptor = os.dup(1)
            elif stat.S_ISREG(mode) and path != STANDARD_OUTPUT:
                temporary, descriptor = stack.enter_context(temporary_beside(final))
            else:
                descriptor = os.open(path if keep else os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        raw = stack.enter_context(contextlib.closing(OutputFile(descriptor, path)))
        with _buffered(raw, path) as writer:
            yield writer
        if temporary:
            with explained(path, "to write"):
                os.fsync(descriptor)
                raw.close()
                if keep:
                    os.replace(temporary, final)


@contextlib.contextmanager
def _buffered(raw: io.RawIOBase, path: str) -> Iterator[io.BufferedWriter]:
    """Yields a buffered writer to a stream, which compresses if the path ends in .gz. At the end, all is written."""
    with contextlib.ExitStack() as stack:
        # The stream is closed even after a failure, so that data left in the writer's buffer are dropped.
        compressed = GzipStream(raw) if path.endswith(".gz") else None
        if compressed:
            stack.enter_context(contextlib.closing(compressed))
        writer: io.BufferedWriter = io.BufferedWriter(compressed or raw, _BLOCK)
        try:
            yield writer
        except BaseException:
            raw.close()
            raise
        writer.flush()
        if compressed:
            compressed.finish()
        writer.detach()


# Remote folders to which this process has written.
_writable: set[str] = set()


@contextlib.contextmanager
def _open_remote_output(url: str, keep: bool) -> Iterator[io.BufferedWriter]:
    folder = url.rpartition("/")[0]
    if folder not in _writable:
        check_remote_writable(url)
        _writable.add(folder)
    if not keep:
        with open(os.devnull, "wb") as file:
            yield file
        return
    with contextlib.closing(RemoteOutput(url)) as raw:
        with _buffered(raw, url) as writer:
            yield writer
        raw.commit()


def read_contents(path: FilePath) -> bytes:
    """Reads a small file, local or remote, as it is.

    Raises:
        InputError: if it cannot be read.
    """
    if is_url(path):
        with contextlib.closing(RemoteInput(os.fspath(path))) as remote:
            return io.BufferedReader(remote, _BLOCK).read()
    with explained(path, "to read a file"), open(path, "rb") as file:
        return file.read()


def exists(path: FilePath) -> bool:
    """Returns whether there is a file or folder at a path or URL."""
    return remote_exists(os.fspath(path)) if is_url(path) else os.path.exists(path)


def is_file(path: FilePath) -> bool:
    """Returns whether there is a file, not a folder, at a path or URL."""
    return is_remote_file(os.fspath(path)) if is_url(path) else os.path.isfile(path)


def check_readable(path: FilePath) -> None:
    """Checks that a file can be read, without opening it: a pipe can be opened only once.

    Args:
        path: the file; "-" is the standard input.

    Raises:
        InputError: if it is missing, a directory, or may not be read.
    """
    if path == STANDARD_STREAM:
        return
    if is_url(path):
        check_remote_readable(os.fspath(path))
        return
    with explained(path, "to read a file"):
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, "Permission denied")


def check_writable(path: FilePath) -> None:
    """Checks that a file on this machine can be made, without making it. URLs are checked when they are opened.

    Args:
        path: the file; "-" is the standard output.

    Raises:
        InputError: if it is a directory, or its directory is missing or may not be written to.
    """
    if path == STANDARD_STREAM or is_url(path):
        return
    final = os.path.realpath(path)
    with explained(path, "to write a file"):
        if os.path.isdir(final) or not os.path.basename(path):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        folder = os.path.dirname(final)
        if not stat.S_ISDIR(os.stat(folder).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory")
        if not os.access(final if os.path.exists(final) and not os.path.isfile(final) else folder, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied")


def check_folder(path: FilePath) -> None:
    """Checks that a folder on this machine exists or can be made, without making it.

    Args:
        path: the folder, or its URL, which is not checked.

    Raises:
        InputError: if a file stands in its place or in that of a folder above it, or the nearest folder that exists may
            not be written to.
    """
    if is_url(path):
        return
    with explained(path, "to make a directory"):
        folder = os.path.realpath(path)
        if os.path.isfile(folder):
            raise FileExistsError(errno.EEXIST, "File exists")
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory")
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied")


def check_absent(path: FilePath) -> None:
    """Checks that a folder that a task makes, or its URL, does not exist yet.

    Raises:
        InputError: if a file or folder of this name exists.
    """
    if exists(path):
        raise InputError("found a directory or a file", "expected no such path yet", "give another --output", path)


def check_distinct_files(*paths: FilePath | None) -> None:
    """Checks that the inputs and outputs of a job are different files.

    Args:
        *paths: the paths of all inputs and outputs. `None` and "-" are ignored.

    Raises:
        ConfigurationError: a ValueError, if two paths lead to the same file.
    """
    named = [os.fspath(path) for path in paths if path and path != STANDARD_STREAM]
    given = [path if is_url(path) else os.path.realpath(path) for path in named]
    for i, path in enumerate(given):
        if path in given[:i]:
            expected = "expected a different file for each input and output"
            raise ConfigurationError("found one file for two purposes (%s), %s", path, expected)


def file_checksum(path: FilePath) -> str:
    """Returns the SHA-256 checksum of a file, in hexadecimal digits.

    Raises:
        InputError: if the file cannot be read.
    """
    if is_url(path):
        digest = hashlib.sha256()
        with contextlib.closing(RemoteInput(os.fspath(path))) as remote:
            while data := remote.read(_BLOCK):
                digest.update(data)
        return digest.hexdigest()
    with explained(path, "to read a file"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
