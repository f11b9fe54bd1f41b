"""Compressed and unbuffered streams, from which `files` builds its readers and writers."""

import io
import zlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from isal import isal_zlib

from keras_encdec.errors import FilePath, explained

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

GZIP_MAGIC = b"\x1f\x8b"

# Level 3 of isal makes files 6 % smaller than level 2 and takes 50 % longer.
_LEVEL = 2
_COMPRESSED_BLOCK = 1 << 17
# 15 bits, and 16 more for a gzip header and trailer.
_WINDOW_BITS = 31


class BrokenGzip(ValueError):
    """Error: the data are not a complete gzip file.

    Args:
        found: str. What was found.
    """

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


def decompressed(file: io.BufferedReader, size: int) -> Iterator[bytes]:
    """Decompresses a gzip file of one or more members.

    The file objects of `gzip` and `isal` are not used because they lose the last block of a truncated file, and with it
    the number of the line where the file breaks off.

    Args:
        file: binary file with `read1`.
        size: int. The largest number of bytes to read, and to yield, at once.

    Yields:
        bytes, never empty.

    Raises:
        BrokenGzip: if the data end early or are corrupt. All data before that are yielded first.
    """
    data = file.read1(size)
    while data:
        # Tapes fill up a file with zeros after a member.
        data = data.lstrip(b"\0")
        if data and not GZIP_MAGIC.startswith(data[:2]):
            raise BrokenGzip("found other data after gzipped data")
        if data:
            data = yield from _member(file, size, data)
        data = data or file.read1(size)


def _member(file: io.BufferedReader, size: int, data: bytes) -> Generator[bytes, None, bytes]:
    """Yields the decompressed data of a member, and returns the data that were read after it."""
    member = isal_zlib.decompressobj(_WINDOW_BITS)
    while True:
        try:
            block = member.decompress(data, size)
        except (isal_zlib.error, zlib.error) as error:  # type: ignore[misc]  # its stub says that it is an instance
            raise BrokenGzip(f"found corrupt gzipped data ({error})") from error
        if block:
            yield block
        if member.eof:
            return member.unused_data
        data = member.unconsumed_tail
        # After a full block the decompressor may hold more output, even if it has consumed all input.
        if not data and len(block) < size:
            data = file.read1(size)
            if not data:
                raise BrokenGzip("found the end of the file inside gzipped data")


class GzipStream(io.RawIOBase):
    """Stream that compresses the data written to it.

    Equal data give equal bytes: the header has no time and no name, and the data are compressed in blocks of a fixed
    size, because the compressed bytes depend on the blocks.

    Args:
        file: binary file to write to. It is not closed.
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
            part = view[start : start + _COMPRESSED_BLOCK - len(self._block)]
            start += len(part)
            if len(part) < _COMPRESSED_BLOCK:
                self._block += part
                if len(self._block) < _COMPRESSED_BLOCK:
                    break
                self._file.write(self._compressor.compress(self._block))
                self._block.clear()
            else:
                self._file.write(self._compressor.compress(part))
        return len(view)

    def finish(self) -> None:
        """Writes the rest of the compressed data and the trailer."""
        self._file.write(self._compressor.compress(self._block) + self._compressor.flush())


class CountedFile(io.FileIO):
    """Unbuffered file that counts the bytes read, also of pipes, where `tell` does not work.

    Attributes:
        count: int. Bytes read so far.
    """

    count = 0

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        size = super().readinto(buffer)
        self.count += size or 0
        return size


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
