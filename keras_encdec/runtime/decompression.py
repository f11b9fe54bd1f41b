"""Decompression of gzip files, of one or more members."""

import io
import zlib
from collections.abc import Generator, Iterator

from isal import isal_zlib

GZIP_MAGIC = b"\x1f\x8b"
# The wbits argument of zlib: 15 for the largest window, plus 16 to expect a gzip header and trailer.
_WINDOW_BITS = 31


def decompressed(file: io.BufferedReader, size: int) -> Iterator[bytes]:
    """Decompresses a gzip file of one or more members; reads, and yields, at most `size` bytes at once.

    The file objects of `gzip` and `isal` are not used because they lose the last block of a truncated file, and with it
    the number of the line where the file breaks off.

    Raises:
        BrokenGzip: if the data end early or are corrupt. All data before that are yielded first.
    """
    data = file.read1(size)
    while data:
        # Tape drives pad a file with zeros after a member.
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


class BrokenGzip(ValueError):
    """Error: the data are not a complete gzip file. It says what was found."""
