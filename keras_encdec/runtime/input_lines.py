"""Lines of plain and gzipped files."""

import dataclasses
import io
import os
import re
import stat
import weakref
from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, ClassVar, Self

from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.runtime.decompression import GZIP_MAGIC, BrokenGzip, decompressed
from keras_encdec.runtime.files import STANDARD_STREAM, check_path, is_url
from keras_encdec.runtime.progress import counted
from keras_encdec.runtime.remote import RemoteInput

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BLOCK = 1 << 17
# Longer than any line of text. Without a limit, a file that is not text could be read into memory as one line.
_MAX_LINE_LENGTH = 1 << 26
_MANY_LINES = 1 << 15


# The first bytes of files that other programs compressed, with the program and the command that decompresses them.
_OTHER_COMPRESSION = {
    b"\xfd7zXZ\x00": ("xz", "xz -dc"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc"),
    **{b"BZh%d1AY&SY" % level: ("bzip2", "bzip2 -dc") for level in range(1, 10)},
    b"PK\x03\x04": ("zip", "unzip -p"),
}
_LONGEST_MAGIC = max(map(len, _OTHER_COMPRESSION))
# How text in UTF-16 begins: with a byte-order mark, or with characters of ASCII in two bytes each.
_UTF16 = re.compile(rb"(\xff\xfe|\xfe\xff)|((?:[\t\r\n -~]\0){4})|((?:\0[\t\r\n -~]){4})")
# A carriage return in the middle of text; several may end it.
_CARRIAGE_RETURNS = re.compile(rb"\r[^\r]")
_UTF16_NAMES = {1: "utf-16", 2: "utf-16le", 3: "utf-16be"}


def _check_compression(start: bytes, path: FilePath) -> None:
    """Raises InputError if a file begins with the signature of a compression other than gzip."""
    for magic, (program, command) in _OTHER_COMPRESSION.items():
        if start.startswith(magic):
            found, remedy = f"found a file compressed by {program}", f"decompress it first: {command} FILE"
            raise InputError(found, "expected plain or gzipped text", remedy, path=path)


class InputLines:
    r"""The lines of a plain or gzipped file, as bytes.

    The first two bytes of the file, not its name, decide whether it is gzipped. A line ends with a line feed, which is
    not part of the line; a carriage return before it is part of the line. The file is read once, in blocks, so that the
    memory does not depend on its size. Iterate over the lines, or call `take`, but not both. Use it as a context
    manager, or call `close`.

    Args:
        path: the file, or its URL; "-" means standard input; or a FilePart.

    Attributes:
        path: the path of the file, as errors name it.
        line_number: int. Number of the last line yielded or taken, from 1.
        size: int. Size of the file on disk in bytes, 0 when it is a pipe.
        size_done: int. Bytes read so far of the file on disk; compressed bytes if it is gzipped.
        ended_with_newline: bool. Whether the last line had a line feed; `None` until all lines are read.

    Raises:
        InputError: from the constructor, if the file is missing, a directory, unreadable, empty, in UTF-16, without
            line feeds between its lines, or compressed twice or by a program other than gzip; also if another
            InputLines is reading standard input. During iteration, if compressed data are truncated or corrupt; the
            error then has the number of the line where they break off.

    Example:

    >>> import os, tempfile
    >>> from keras_encdec.runtime.open_output import open_output
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "lines.gz")
    ...     with open_output(path) as file:
    ...         _ = file.write(b"one\ntwo\r\nthree")
    ...     with InputLines(path) as lines:
    ...         print(list(lines), lines.line_number, lines.ended_with_newline)
    [b'one', b'two\r', b'three'] 3 False
    """

    #: How progress describes the part of the file that is done.
    done: ClassVar[str] = "read"
    # The object that opened standard input last: two readers at once would get alternate blocks.
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
        # Blocks that `take` has read ahead; with each, the index of its first byte that has not been taken, and the
        # number of line feeds from that byte on.
        self._ahead: deque[tuple[bytes, int, int]] = deque()
        self._lines_ahead = self._bytes_of_last_line = 0

    def _open_part(self, part: "FilePart") -> None:
        self.path, self.line_number = part.path, part.first_line - 1
        self._file, self._raw = io.BytesIO(), None
        self.size = len(part.data)
        self._block, self._blocks = part.data, iter([])

    def _open_file(self, path: FilePath) -> None:
        check_path(path, "a file to read")
        standard = path == STANDARD_STREAM
        if standard:
            path = self.path = "standard input"
            self._check_read_once()
        if is_url(path):
            self._raw = RemoteInput(os.fspath(path))
            self.size = self._raw.size
        else:
            with explained(path, "to read a file"):
                self._raw = CountedFile(os.dup(0) if standard else path, "rb")
                status = os.fstat(self._raw.fileno())
            self.size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        file: io.BufferedReader = io.BufferedReader(self._raw, _BLOCK)
        self._file = file
        try:
            with explained(path, "to read a file"):
                start = file.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]
            _check_compression(start, path)
            start = start[: len(GZIP_MAGIC)]
            # A pipe may give the first byte alone. No line of text begins with this byte.
            if not start or not GZIP_MAGIC.startswith(start):
                self._blocks = iter(lambda: file.read1(_BLOCK), b"")
            else:
                self._blocks = decompressed(file, _BLOCK)
            self._block = self._read()
            if not self._block:
                remedy = (
                    "it can be read only once; check what is piped into it" if standard else "check how it was made"
                )
                raise InputError("found an empty file", "expected at least one line", remedy, path=path)
            if self._block.startswith(GZIP_MAGIC):
                found, remedy = "found a file that was gzipped twice", "decompress it first: gzip -dc FILE"
                raise InputError(found, "expected plain or gzipped text", remedy, path=path)
            if utf16 := _UTF16.match(self._block):
                remedy = f"convert the file: iconv -f {_UTF16_NAMES[utf16.lastindex or 1]} -t utf-8 FILE"
                raise InputError("found text in UTF-16", "expected UTF-8", remedy, path=path)
            if b"\n" not in self._block and _CARRIAGE_RETURNS.search(self._block):
                found, remedy = "found lines separated by carriage returns", "convert the file: tr '\\r' '\\n' <FILE"
                raise InputError(found, "expected line feeds", remedy, path=path)
        except InputError:
            file.close()
            raise
        if standard:
            InputLines._standard_input = weakref.ref(self)

    @property
    def size_done(self) -> int:
        return self._raw.count if self._raw else self.size

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

    def error(self, found: str, expected: str, remedy: str, line: int | None = None) -> InputError:
        """Makes the error about a line, by default the last one that was yielded or taken."""
        return InputError(found, expected, remedy, self.path, line or self.line_number)

    def take(self, number: int) -> bytes:
        """Reads the next lines together, which is faster than one after another.

        Args:
            number: int. How many lines.

        Returns:
            bytes: the lines with their line feeds; at the end of the file fewer lines, the last perhaps without one.

        Raises:
            InputError: as during iteration.
        """
        while self._lines_ahead < number and (block := self._block or self._read(self._lines_ahead)):
            self._block = b""
            self._keep_ahead(block)
        taken, missing = [], number
        while self._ahead and missing:
            block, start, count = self._ahead.popleft()
            end = len(block)
            if count >= missing:
                end = start
                for _ in range(missing):
                    end = block.index(b"\n", end) + 1
                if end < len(block):
                    self._ahead.appendleft((block, end, count - missing))
                count = missing
            taken.append(block[start:end])
            missing -= count
        self._lines_ahead -= number - missing
        data = b"".join(taken)
        ended = not data or data.endswith(b"\n")
        self.line_number += number - missing + (not ended)
        if missing and self.ended_with_newline is None:
            self.ended_with_newline = ended
        return data

    def _keep_ahead(self, block: bytes) -> None:
        count = block.count(b"\n")
        self._ahead.append((block, 0, count))
        self._lines_ahead += count
        self._bytes_of_last_line = (
            len(block) - block.rfind(b"\n") - 1 if count else self._bytes_of_last_line + len(block)
        )
        if self._bytes_of_last_line > _MAX_LINE_LENGTH:
            raise self._too_long(self.line_number + self._lines_ahead + 1)

    def _check_read_once(self) -> None:
        other = InputLines._standard_input and InputLines._standard_input()
        if other and not other._file.closed:
            found = "found - as the name of two inputs"
            expected = "expected one, because standard input can be read only once"
            raise InputError(found, expected, "give the name of a file for the other", self.path)

    def _read(self, lines_ahead: int = 0) -> bytes:
        place = self.line_number + lines_ahead + 1
        try:
            with explained(self.path, "to read", place):
                return next(self._blocks, b"")
        except BrokenGzip as error:
            remedy = "copy or make the file again"
            raise self.error(f"{error}", "expected a complete gzip file", remedy, place) from error

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
                if held > _MAX_LINE_LENGTH:
                    raise self._too_long(number + 1)
            block = self._read()
        rest = b"".join(pending)
        self.ended_with_newline = not rest
        if rest:
            self.line_number = number + 1
            yield rest

    def _too_long(self, line: int) -> InputError:
        found = f"found a line of more than {_MAX_LINE_LENGTH >> 20} MiB"
        return self.error(found, "expected lines of text", "name a text file, plain or gzipped", line)


@dataclasses.dataclass(frozen=True)
class FilePart:
    """Consecutive lines of a file in memory, which `InputLines` reads in place of the file.

    Attributes:
        path: the path of the file, as errors name it.
        first_line: int. Number of the first of these lines in the file, from 1.
        data: bytes. The lines, uncompressed, with their line feeds.
    """

    path: str
    first_line: int
    data: bytes

    def __fspath__(self) -> str:
        return self.path


def unequal_lines(
    first: InputLines,
    second: InputLines,
    *,
    remedy: str = "make the n-th line of the targets the translation of the n-th line of the sources",
) -> InputError:
    """Makes the error that two files have different numbers of lines. It reads both to the end."""
    counts = [_count_to_end(lines) for lines in (first, second)]
    found = f"found {counted(counts[0], 'lines')}, and {counted(counts[1], 'lines')} in {second.path}"
    return InputError(found, "expected the same number", remedy, path=first.path)


def _count_to_end(lines: InputLines) -> int:
    for _ in lines:  # of a file that is iterated over
        pass
    while lines.take(_MANY_LINES):  # of one whose lines are taken
        pass
    return lines.line_number


class CountedFile(io.FileIO):
    """Unbuffered file that counts the bytes read, even from pipes, where `tell` does not work.

    Attributes:
        count: int. Bytes read so far.
    """

    count = 0

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        size = super().readinto(buffer)
        self.count += size or 0
        return size
