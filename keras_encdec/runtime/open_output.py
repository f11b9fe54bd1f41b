"""Output files, plain and gzipped, that appear only when they are complete."""

import contextlib
import errno
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
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
# The wbits argument of zlib: 15 for the largest window, plus 16 to write a gzip header and trailer.
_WINDOW_BITS = 31


@contextlib.contextmanager
def open_output(path: FilePath, keep: bool = True) -> Iterator[io.BufferedWriter]:
    """Opens a file for writing that appears under its name only when it is complete.

    The data go to a hidden file in the same directory. At the end of the `with` block the hidden file is flushed to the
    disk and renamed. It has the permissions of the file that it replaces, and its owner can always read and write it.
    If the block raises an exception, the hidden file is removed, and an existing file at `path` stays unchanged. If the
    process is killed, the hidden file stays until another process writes to `path`. A device, a pipe and standard
    output are written to directly. A remote file appears when the store commits it, or when it is renamed.

    Args:
        path: the file, or its URL; "-" means standard output. The file is compressed if its name ends in `.gz`; equal
            content gives equal bytes.
        keep: bool. Whether to keep the file. If not, it is written as usual and removed at the end. Defaults to `True`.

    Yields:
        a buffered binary file, open for writing.

    Raises:
        InputError: at the start of the block, if the directory is missing or not writable, or if `path` is a directory
            or has the ending of a compression other than gzip; later, if the disk is full or writing fails for another
            reason.
        BrokenPipeError: if the reader of a pipe has closed it, as `| head` does.
    """
    with open_outputs([path], keep) as (file,):
        yield file


@contextlib.contextmanager
def open_outputs(paths: Iterable[FilePath], keep: bool = True) -> Iterator[list[io.BufferedWriter]]:
    """Opens several files for writing as `open_output` does; none of them appears before all are on the disk.

    A remote file may be uploaded only as it appears. The first file appears last: if it is there, so are the others,
    even if the process was killed.

    Args:
        paths: the files, or their URLs.
        keep: see `open_output`.

    Yields:
        a list with a buffered binary file for each path.

    Raises:
        InputError: see `open_output`.
        BrokenPipeError: see `open_output`.
    """
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(_opened(path, keep)) for path in paths]
        yield [output.writer for output in outputs]
        for output in outputs:
            output.complete()
        for output in reversed(outputs):
            output.appear()


def write_file(path: FilePath, content: bytes) -> None:
    """Writes a whole file, see `open_output`."""
    write_files({path: content})


def write_files(contents: Mapping[FilePath, bytes]) -> None:
    """Writes whole files, which appear together, see `open_outputs`."""
    with open_outputs(contents) as files:
        for file, content in zip(files, contents.values(), strict=True):
            file.write(content)


class _Output:
    """An output while it is written; a name that ends in .gz compresses it.

    Args:
        raw: stream of the bytes as they are stored.
        path: the name of the output.
        store: flushes the bytes written to `raw` to the disk, before the output gets its name. Optional.
        appear: gives the output its name. Optional.
    """

    def __init__(
        self,
        raw: io.RawIOBase,
        path: str,
        store: Callable[[], object] = lambda: None,
        appear: Callable[[], object] = lambda: None,
    ) -> None:
        self._raw, self._store, self.appear = raw, store, appear
        self._compressed = GzipStream(raw) if path.endswith(".gz") else None
        self.writer: io.BufferedWriter = io.BufferedWriter(self._compressed or raw, _BLOCK)

    def complete(self) -> None:
        """Stores all that was written."""
        self.writer.flush()
        if self._compressed:
            self._compressed.finish()
        self.writer.detach()
        self._store()

    def close(self) -> None:
        """Closes the streams. What the buffer of an incomplete output still holds is dropped."""
        self._raw.close()
        if self._compressed:
            self._compressed.close()


@contextlib.contextmanager
def _opened(path: FilePath, keep: bool) -> Iterator[_Output]:
    """Opens one output; at the end of the block, what has not appeared is removed."""
    check_path(path, "a file to write")
    path = os.fspath(path)
    check_compression(path)
    with contextlib.closing(_remote_output(path, keep)) if is_url(path) else _local_output(path, keep) as output:
        yield output


@contextlib.contextmanager
def _local_output(path: str, keep: bool) -> Iterator[_Output]:
    if path == STANDARD_STREAM:
        path = STANDARD_OUTPUT
    # A symbolic link is kept: the file that it points to is replaced.
    final = os.path.realpath(path)
    with contextlib.ExitStack() as stack:
        with explained(path, "to write a file"):
            mode, exists = stat.S_IFREG, False
            with contextlib.suppress(FileNotFoundError):
                mode, exists = os.stat(path).st_mode, True
            if stat.S_ISDIR(mode) or not os.path.basename(path):
                raise IsADirectoryError(errno.EISDIR, "Is a directory")
            temporary = None
            if path == STANDARD_OUTPUT and keep:
                # Not opened by name: if the shell redirects the output to a file, that file would be replaced.
                descriptor = os.dup(1)
            elif stat.S_ISREG(mode) and path != STANDARD_OUTPUT:
                temporary, descriptor = stack.enter_context(temporary_beside(final))
                if exists:  # what others must not read stays unreadable
                    with contextlib.suppress(OSError):  # some file systems have no permissions
                        os.fchmod(descriptor, mode & 0o777 | 0o600)
            else:
                descriptor = os.open(path if keep else os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        raw = OutputFile(descriptor, path)
        if temporary is None:
            yield stack.enter_context(contextlib.closing(_Output(raw, path)))
            return

        def store() -> None:
            with explained(path, "to write"):
                os.fsync(descriptor)
                raw.close()

        def appear() -> None:
            if keep:
                with explained(path, "to write"):
                    os.replace(temporary, final)

        yield stack.enter_context(contextlib.closing(_Output(raw, path, store, appear)))


# Remote folders to which this process has written.
_writable: set[str] = set()


def _remote_output(url: str, keep: bool) -> _Output:
    folder = url.rpartition("/")[0]
    if folder not in _writable:
        check_remote_writable(url)
        _writable.add(folder)
    if not keep:
        return _Output(io.FileIO(os.devnull, "wb"), url)
    raw = RemoteOutput(url)
    return _Output(raw, url, appear=raw.commit)


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

    They therefore cannot be confused with an OSError of the code that writes to the file.

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
