"""Gzip in a stream, both ways."""

import io
import zlib
from collections.abc import Iterator

from isal import isal_zlib

from keras_encdec.runtime.os_errors import FilePath, explained

GZIP_MAGIC = b"\x1f\x8b"

# isal's level 3 makes files 6 % smaller than level 2, and takes half as long again.
_LEVEL = 2
# To zlib, 16 above its window bits means a gzip header and trailer.
_WINDOW_BITS = 31


class BrokenGzip(ValueError):
    """Data that are not those of a complete gzip file.

    Args:
        found: str. What was found.
    """

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


def decompressed(file: io.BufferedReader, size: int) -> Iterator[bytes]:
    """Decompresses a gzip file of one or more members.

    Not gzip's or isal's own file object: at the end of a truncated file those lose what their last block
    holds, and with it the place where the file broke.

    Args:
        file: binary file with `read1`.
        size: int. Most bytes to read, and to yield, at once.

    Yields:
        bytes, never empty.

    Raises:
        BrokenGzip: when the data end early or are corrupt, after everything before that was yielded.
    """
    data = file.read1(size)
    while data:
        # Zeros may fill up a file after a member (on tapes).
        data = data.lstrip(b"\0")
        if data and not GZIP_MAGIC.startswith(data[:2]):
            raise BrokenGzip("found other data after gzipped data")
        if data:
            data = yield from _member(file, size, data)
        data = data or file.read1(size)


def _member(file, size, data):
    """Yields what a member holds, and returns what was read after it."""
    member = isal_zlib.decompressobj(_WINDOW_BITS)
    while True:
        try:
            block = member.decompress(data, size)
        except (isal_zlib.error, zlib.error) as error:
            raise BrokenGzip(f"found corrupt gzipped data ({error})") from error
        if block:
            yield block
        if member.eof:
            return member.unused_data
        data = member.unconsumed_tail
        # A full block may leave more to come out, though all that was read went in.
        if not data and len(block) < size:
            data = file.read1(size)
            if not data:
                raise BrokenGzip("found the end of the file inside gzipped data")


class GzipStream(io.RawIOBase):
    """Compresses what is written to it; the header holds neither time nor name: same input, same bytes.

    Args:
        file: binary file to write to, left open.
    """

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self._compressor = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _WINDOW_BITS)

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:
        self._file.write(self._compressor.compress(data))
        return len(data)

    def finish(self) -> None:
        """Writes what the compressor holds back, and the trailer."""
        self._file.write(self._compressor.flush())


class CountedFile(io.FileIO):
    """An unbuffered file that counts the bytes read, also where `tell` does not work (pipes).

    Attributes:
        count: int. Bytes read so far.
    """

    count = 0

    def readinto(self, buffer: bytearray | memoryview) -> int | None:
        size = super().readinto(buffer)
        self.count += size or 0
        return size


class OutputFile(io.FileIO):
    """An unbuffered file whose failures are told apart from those of the code that writes to it.

    Args:
        descriptor: int. An open file descriptor.
        shown_path: the path to name in errors, rather than that of a temporary file.

    Raises:
        InputError: on writing, when the disk is full or writing fails otherwise.
    """

    def __init__(self, descriptor: int, shown_path: FilePath) -> None:
        super().__init__(descriptor, "wb")
        self._shown_path = shown_path

    def write(self, data: bytes | memoryview) -> int:
        data = memoryview(data)
        written = 0
        with explained(self._shown_path, "to write"):
            # The system may take less than it was given, last of all when the disk fills up.
            while written < len(data):
                written += super().write(data[written:])
        return written
