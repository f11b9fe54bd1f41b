"""Output files, plain and gzipped, that appear only when they are complete."""

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from isal import isal_zlib

from keras_encdec.errors import FilePath, explained
from keras_encdec.runtime.files import STANDARD_STREAM, check_compression, check_path, is_url
from keras_encdec.runtime.remote import RemoteOutput, check_remote_writable
from keras_encdec.runtime.unfinished import temporary_beside

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STANDARD_OUTPUT = "/dev/stdout"
# Level 3 of isal makes files 6 % smaller than level 2 and takes 50 % longer.
_LEVEL = 2
_BLOCK = 1 << 17
# 15 bits, and 16 more for a gzip header and trailer.
_WINDOW_BITS = 31


@contextlib.contextmanager
def open_output(path: FilePath, keep: bool = True) -> Iterator[io.BufferedWriter]:
    """Opens a file for writing that appears under its name only when it is complete.

    The data go to a hidden file in the same directory. At the end of the `with` block the hidden file is flushed to the
    disk and renamed. If the block raises an exception, the hidden file is removed, and an existing file at `path` stays
    unchanged. If the process is killed, the hidden file stays until another process writes to `path`. A device, a pipe
    and standard output are written to directly. A remote file appears by the store's own commit, or by a rename.

    Args:
        path: the file, or its URL; "-" means standard output. The file is compressed if its name ends in `.gz`; equal
            content gives equal bytes.
        keep: bool. Whether to keep the file. If not, it is written as usual and removed at the end. Defaults to `True`.

    Yields:
        a buffered binary file, open for writing.

    Raises:
        InputError: at the start of the block, if the directory is missing or not writable, or if `path` is a directory
            or has the name of another compression than gzip; later, if the disk is full or writing fails for another
            reason.
        BrokenPipeError: if the reader of a pipe has closed it, as `| head` does.
    """
    check_path(path, "a file to write")
    path = os.fspath(path)
    check_compression(path)
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


def write_file(path: FilePath, content: bytes) -> None:
    """Writes a whole file, see `open_output`."""
    with open_output(path) as file:
        file.write(content)


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


class GzipStream(io.RawIOBase):
    """Stream that compresses the data written to it into another file, which it does not close.

    Equal data give equal bytes: the header has no time and no name, and the data are compressed in blocks of a fixed
    size, because the compressed bytes depend on the blocks.
    """

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self._compressor = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _WINDOW_BITS)
        self._block = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        view = memoryview(data).cast("B")
        start = 0
        while start < len(view):
            part = view[start : start + _BLOCK - len(self._block)]
            start += len(part)
            if len(part) < _BLOCK:
                self._block += part
                if len(self._block) < _BLOCK:
                    break
                self._file.write(self._compressor.compress(self._block))
                self._block.clear()
            else:
                self._file.write(self._compressor.compress(part))
        return len(view)

    def finish(self) -> None:
        """Writes the rest of the compressed data and the trailer."""
        self._file.write(self._compressor.compress(self._block) + self._compressor.flush())


class OutputFile(io.FileIO):
    """Unbuffered file that raises its own write errors as InputError.

    They can therefore not be confused with an OSError of the code that writes to the file.

    Args:
        descriptor: int. An open file descriptor.
        shown_path: the path to name in errors, instead of the path of a temporary file.

    Raises:
        InputError: from `write`, if the disk is full or writing fails for another reason.
    """

    def __init__(self, descriptor: int, shown_path: FilePath) -> None:
        super().__init__(descriptor, "wb")
        self._shown_path = shown_path

    def write(self, data: "ReadableBuffer", /) -> int:
        view = memoryview(data)
        written = 0
        with explained(self._shown_path, "to write"):
            # The system may write only part of the data, for example just before the disk is full.
            while written < len(view):
                written += super().write(view[written:])
        return written
