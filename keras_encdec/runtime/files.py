"""Files in, lines out, plain or gzipped; files out, whole or not at all."""

import contextlib
import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterator

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.runtime.os_errors import FilePath, explained
from keras_encdec.runtime.streams import GZIP_MAGIC, BrokenGzip, CountedFile, GzipStream, OutputFile, decompressed
from keras_encdec.runtime.unfinished import temporary_beside

_BLOCK = 1 << 17
STANDARD_STREAM = "-"
STANDARD_OUTPUT = "/dev/stdout"
# No line of text is this long; a file of something else would otherwise be read into memory whole.
_LONGEST_LINE = 1 << 26


class InputLines:
    """The lines of a file, as bytes, whether it is plain or gzipped.

    The file's first two bytes decide, not its name. Lines end with a line feed, which is not part of
    them; a carriage return is. The file is read once and in blocks, so that memory does not grow with
    it. Use it as a context manager, or call `close`.

    Args:
        path: the file; "-" is the standard input.

    Attributes:
        path: the file's, as errors name it.
        line_number: int. Number of the last line yielded, from 1.
        bytes_read: int. Bytes read so far of the file on disk (of a gzipped file: compressed ones).
        bytes_total: int. Size of the file on disk, 0 when it is a pipe.
        ended_with_newline: bool. Whether the last line had a line feed; `None` until all lines are read.

    Raises:
        InputError: when the file is missing, a directory, unreadable or empty, here; when compressed
            data are truncated or corrupt, at the line where they broke.

    Example:

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "lines.gz")
    ...     with open_output(path) as file:
    ...         _ = file.write(b"one\\ntwo\\r\\nthree")
    ...     with InputLines(path) as lines:
    ...         print(list(lines), lines.line_number, lines.ended_with_newline)
    [b'one', b'two\\r', b'three'] 3 False
    """

    def __init__(self, path: FilePath) -> None:
        standard = path == STANDARD_STREAM
        if standard:
            path = "standard input"
        self.path, self.line_number, self.ended_with_newline = path, 0, None
        with explained(path, "to read a file"):
            self._raw = CountedFile(os.dup(0) if standard else path, "rb")
        self._file = file = io.BufferedReader(self._raw, _BLOCK)
        try:
            with explained(path, "to read a file"):
                status = os.fstat(self._raw.fileno())
                gzipped = file.peek(2)[:2] == GZIP_MAGIC
            self.bytes_total = status.st_size if stat.S_ISREG(status.st_mode) else 0
            self._blocks = decompressed(file, _BLOCK) if gzipped else iter(lambda: file.read1(_BLOCK), b"")
            self._block = self._read()
            if not self._block:
                raise InputError(
                    "found an empty file", "expected at least one line", "check how it was made", path=path
                )
        except InputError:
            file.close()
            raise
        self._lines = self._iterate()

    @property
    def bytes_read(self) -> int:
        return self._raw.count

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self) -> None:
        """Closes the file. Further lines are not read."""
        self._lines.close()
        self._file.close()

    def _read(self):
        place = self.line_number + 1
        try:
            with explained(self.path, "to read", place):
                return next(self._blocks, b"")
        except BrokenGzip as error:
            expected, remedy = "expected a complete gzip file", "copy or make the file again"
            raise InputError(error.found, expected, remedy, self.path, place) from error

    def _iterate(self):
        number, pending, held = 0, [], 0
        block, self._block = self._block, None
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


@contextlib.contextmanager
def open_output(path: FilePath, keep: bool = True) -> Iterator[io.BufferedWriter]:
    """Opens a file for writing that appears under its name only when it is complete.

    What is written goes to a hidden file beside it, which is flushed to the disk and renamed at the end
    of the `with` block. After any exception it is removed, and a file that stood at `path` is as it was; that of a
    process which was killed is removed by the next one that writes to `path`. A device, a pipe and the standard
    output are written to directly.

    Args:
        path: the file; "-" is the standard output. When its name ends in `.gz` it is compressed; equal content
            gives equal bytes.
        keep: bool. Whether the file is to appear; if not, all is done as ever and removed in the end.
            Defaults to `True`.

    Yields:
        a buffered binary file, open for writing.

    Raises:
        InputError: at once when the directory is missing or not writable or `path` is a directory;
            later when the disk is full or writing fails otherwise.
        BrokenPipeError: when nobody reads the pipe any longer: the end that `| head` makes.
    """
    path = os.fspath(path)
    if path == STANDARD_STREAM:
        path = STANDARD_OUTPUT
    # A link stays a link: the file that it points to is replaced.
    final, temporary = os.path.realpath(path), None
    with contextlib.ExitStack() as stack:
        with explained(path, "to write a file"):
            mode = stat.S_IFREG
            with contextlib.suppress(FileNotFoundError):
                mode = os.stat(path).st_mode
            if stat.S_ISDIR(mode) or not os.path.basename(path):
                raise IsADirectoryError(errno.EISDIR, "Is a directory")
            if path == STANDARD_OUTPUT and keep:
                # Not by its name: where it leads to a file, that file would be replaced under the shell's hands.
                descriptor = os.dup(1)
            elif stat.S_ISREG(mode) and path != STANDARD_OUTPUT:
                temporary, descriptor = stack.enter_context(temporary_beside(final))
            else:
                descriptor = os.open(path if keep else os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        raw = stack.enter_context(contextlib.closing(OutputFile(descriptor, path)))
        # Closing the stream also on failure drops what is still in the buffer above it.
        stream = stack.enter_context(contextlib.closing(GzipStream(raw) if path.endswith(".gz") else raw))
        writer = io.BufferedWriter(stream, _BLOCK)
        yield writer
        writer.flush()
        if stream is not raw:
            stream.finish()
        if temporary:
            with explained(path, "to write"):
                os.fsync(descriptor)
                raw.close()
                if keep:
                    os.replace(temporary, final)


def check_distinct_files(*paths: FilePath | None) -> None:
    """Checks that the inputs and outputs of a job are different files.

    Args:
        *paths: of all inputs and outputs; `None` and "-" are no files.

    Raises:
        ConfigurationError: a ValueError, when two are one file.
    """
    given = [os.path.realpath(path) for path in paths if path and path != STANDARD_STREAM]
    if len(set(given)) < len(given):
        raise ConfigurationError("found one file for two purposes, expected another for each input and output")


def file_checksum(path: FilePath) -> str:
    """The SHA-256 checksum of a file, in hexadecimal digits.

    Raises:
        InputError: when the file cannot be read.
    """
    with explained(path, "to read a file"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
