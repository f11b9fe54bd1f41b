"""Decompression of gzip files, of one or more members."""

import contextlib
import dataclasses
import io
import itertools
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Protocol

from isal import isal_zlib

from keras_encdec.runtime.workers import available_processors, in_order, threads

GZIP_MAGIC = b"\x1f\x8b"
# The magic number and the only method of compression.
_HEADER = GZIP_MAGIC + b"\x08"
# The wbits argument of zlib: 15 for the largest window, plus 16 to expect a gzip header and trailer.
_WINDOW_BITS = 31
# Compressed bytes of a slab, which a thread decompresses at once, and the decompressed bytes after which it stops, so
# that memory is bounded.
_SLAB, _SLAB_OUTPUT = 1 << 20, 1 << 24
# Compressed bytes to give to the decompressor at once. It copies those that it does not need yet, so fewer are faster.
_PIECE = 1 << 16
_MOST_THREADS = 4


class _Source(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def decompressed(file: io.BufferedReader, size: int) -> Iterator[bytes]:
    """Decompresses a gzip file of one or more members.

    The file objects of `gzip` and `isal` are not used because they lose the last block of a truncated file, and with it
    the number of the line where the file breaks off.

    Args:
        file: binary file with `read1`.
        size: int. The maximum number of bytes to read, and to yield, at once.

    Yields:
        bytes, never empty.

    Raises:
        BrokenGzip: if the data end early or are corrupt. All data before that are yielded first.
    """
    yield from _members(file, size)


def decompressed_in_parallel(file: io.BufferedReader, size: int) -> Iterator[bytes]:
    """Decompresses a gzip file as `decompressed` does, several members at a time.

    A file does not say where its members begin, and a member ends where its decompression ends. The file is therefore
    cut into slabs of 1 MiB. In each of them, a thread guesses that a member begins at the first bytes that look like a
    gzip header, and decompresses from there. Its output is used if the preceding member turns out to end at this place.
    Only members smaller than a slab gain from it: those of BGZF, and of other programs that compress in blocks. A file
    whose first member is larger is decompressed without threads.

    Args:
        file: binary file with `read`.
        size: int. The maximum number of bytes to yield at once outside the threads.

    Yields:
        bytes, never empty.

    Raises:
        BrokenGzip: see `decompressed`.
    """
    first, others = _decompress_slab(file.read(_SLAB)), iter(lambda: file.read(_SLAB), b"")
    if not first.members:
        yield from _members(_Slabs(itertools.chain([first], map(_Slab, others))), size)
        return
    number = min(available_processors(), _MOST_THREADS)
    with threads(number) as executor:
        slabs = _Slabs(itertools.chain([first], in_order(executor, _decompress_slab, others, number + 1)))
        yield from _members(slabs, size, slabs.members_at)


def _members(
    file: _Source, size: int, members_at: Callable[[int], Sequence[bytes]] = lambda unread: ()
) -> Iterator[bytes]:
    """Yields the decompressed data of all members.

    Args:
        file: what to read.
        size: int. The maximum number of bytes to read, and to yield, at once.
        members_at: function that takes the number of bytes that were read last and are still to be decompressed, and
            returns the data of the members that begin there if they are known, and skips these. Defaults to none.
    """
    data = file.read1(size)
    while data:
        # Tape drives pad a file with zeros after a member.
        data = data.lstrip(b"\0")
        if data and not GZIP_MAGIC.startswith(data[:2]):
            raise BrokenGzip("found other data after gzipped data")
        if known := members_at(len(data)):
            yield from known
            data = b""
        if data:
            data = yield from _member(file, size, data)
        data = data or file.read1(size)


def _member(file: _Source, size: int, data: bytes) -> Generator[bytes, None, bytes]:
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


@dataclasses.dataclass(frozen=True)
class _Slab:
    """Consecutive bytes of a file, and the members that a thread has found in them.

    Attributes:
        data: bytes.
        start: int. Index where the first of these members begins, if the thread guessed right. Defaults to `0`.
        end: int. Index of the byte after the last of them. Defaults to `0`.
        members: list of bytes: the decompressed data of these members. Defaults to none.
    """

    data: bytes
    start: int = 0
    end: int = 0
    members: Sequence[bytes] = ()


def _decompress_slab(data: bytes) -> _Slab:
    """Decompresses the members that end in a slab, from the first place that looks like the header of one."""
    source, blocks, size = io.BytesIO(data), [], 0
    start = end = max(data.find(_HEADER), 0)
    known = 0  # blocks of whole members
    source.seek(start)

    def note_member(unread: int) -> Sequence[bytes]:
        nonlocal end, known
        end, known = source.tell() - unread, len(blocks)
        return ()

    with contextlib.suppress(BrokenGzip):
        for block in _members(source, _PIECE, note_member):
            blocks.append(block)
            size += len(block)
            if size > _SLAB_OUTPUT:
                break
        else:
            end, known = len(data), len(blocks)
    return _Slab(data, start, end, blocks[:known])


class _Slabs:
    """The slabs of a file, one after another, to be read in pieces.

    Args:
        slabs: iterator of _Slab.
    """

    def __init__(self, slabs: Iterator[_Slab]) -> None:
        self._slabs, self._slab, self._position = slabs, _Slab(b""), 0

    def read1(self, size: int, /) -> bytes:
        """Reads up to a number of bytes; none at the end of the file."""
        if self._position == len(self._slab.data):
            self._slab, self._position = next(self._slabs, _Slab(b"")), 0
        piece = self._slab.data[self._position : self._position + min(size, _PIECE)]
        self._position += len(piece)
        return piece

    def members_at(self, unread: int) -> Sequence[bytes]:
        """See `_members`."""
        if self._position - unread != self._slab.start or not self._slab.members:
            return ()
        self._position = self._slab.end
        return self._slab.members


class BrokenGzip(ValueError):
    """Error: the data are not a complete gzip file.

    Args:
        found: str. What was found.
    """

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found
