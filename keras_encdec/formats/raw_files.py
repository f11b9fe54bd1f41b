"""Unbuffered files that count what is read, or explain why writing failed."""

import io

from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.os_errors import explained


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
