"""Checksums of files."""

import hashlib

from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.os_errors import explained


def file_checksum(path: FilePath) -> str:
    """The SHA-256 checksum of a file, in hexadecimal digits.

    Raises:
        InputError: when the file cannot be read.
    """
    with explained(path, "to read a file"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
