"""Which encoding a file is read in."""

import codecs

from keras_encdec.errors import InputError
from keras_encdec.runtime.os_errors import FilePath

BYTE_ORDER_MARK = "\ufeff"
# Every ASCII character, and what begins an escape in the encodings that are ASCII until it comes.
_PROBES = (b"\\u0041\\x41", b"+AGEAYg- ~{!!~}", b"\x1b$B!!\x1b(B", bytes(range(128)))


class FileEncoding:
    """How the bytes of a file become text.

    Without a declared encoding a file is UTF-8, and bytes that are not are an error. With one, bytes
    that it cannot decode are carried through as lone surrogates ("surrogateescape").

    Args:
        name: str. A Python codec whose ASCII characters are ASCII's bytes; `None` for UTF-8, checked.

    Attributes:
        codec: str. The codec's canonical name.
        errors: str. How decoding treats other bytes: "strict" or "surrogateescape".
        is_utf8: bool. Whether a byte-order mark may begin the file.

    Raises:
        InputError: when the name is unknown or the encoding is not compatible with ASCII.

    Example:

    >>> FileEncoding("Latin-1").decode(b"caf\\xe9")
    'café'
    """

    def __init__(self, name: str | None = None) -> None:
        self.codec, self.errors = "utf-8", "strict"
        if name is not None:
            self.codec, self.errors = _canonical_name(name), "surrogateescape"
        self.is_utf8 = self.codec == "utf-8"

    def decode(self, data: bytes) -> str:
        """Decodes.

        Args:
            data: bytes.

        Returns:
            str.

        Raises:
            UnicodeDecodeError: when no encoding was declared and the bytes are not UTF-8.
        """
        return data.decode(self.codec, self.errors)

    def decode_line(self, data: bytes, path: FilePath, line: int) -> str:
        """Decodes a line of a file.

        Args:
            data: bytes.
            path: the file, named in errors.
            line: int. The line's number.

        Returns:
            str.

        Raises:
            InputError: when no encoding was declared and the bytes are not UTF-8.
        """
        try:
            return self.decode(data)
        except UnicodeDecodeError as error:
            raise undecodable(error, path, line) from None

    def encode(self, text: str) -> bytes:
        """Encodes: the inverse of `decode`.

        Args:
            text: str.

        Returns:
            bytes.

        Raises:
            UnicodeEncodeError: when the encoding has no such character.
        """
        return text.encode(self.codec, "surrogateescape")


def undecodable(error: UnicodeDecodeError, path: FilePath, line: int, remedy: str = "") -> InputError:
    """The report of bytes that are not UTF-8 in a file without a declared encoding.

    Args:
        error: UnicodeDecodeError.
        path: the file.
        line: int. The line's number.
        remedy: str. What else can be done. Optional.

    Returns:
        InputError.
    """
    data, start = error.object, error.start
    around = data[max(0, start - 12) : start + 12].decode("ascii", "backslashreplace")
    return InputError(
        f'found bytes that are not UTF-8 (0x{data[start]:02x} in "{around}")',
        "expected UTF-8",
        f"name the file's encoding, such as --encoding=latin-1{remedy}",
        path=path,
        line=line,
    )


def unencodable(
    error: UnicodeEncodeError,
    name: str | None,
    path: FilePath | None,
    line: int | None = None,
    text: str = "the tokenized text",
    expected: str = "one that has all of its characters",
    remedy: str = "convert the file to UTF-8",
) -> InputError:
    """The report of a character that the declared encoding of what is written does not have.

    Args:
        error: UnicodeEncodeError.
        name: str. The encoding as it was declared.
        path: the file that the text comes from.
        line: int. The line's number. Optional.
        text: str. What the character stands in. Defaults to text that a tokenizer has put it in.
        expected: str. What encoding is expected. Defaults to one that has all of the text's characters.
        remedy: str. What to do. Defaults to converting the file.

    Returns:
        InputError.
    """
    character = error.object[error.start]
    return InputError(
        f"found that {character!r} in {text} is not in the encoding {name}", f"expected {expected}", remedy, path, line
    )


def _canonical_name(name: str) -> str:
    remedy = "name one that contains ASCII, such as utf-8, latin-1 or cp1252, or convert the file to UTF-8"
    try:
        canonical = codecs.lookup(name).name.removesuffix("-sig")
        compatible = all(probe.decode(canonical) == probe.decode("ascii") for probe in _PROBES)
        # Codecs for other things than files, such as idna, refuse here.
        b"a\xffb".decode(canonical, "surrogateescape")
        if compatible:
            return canonical
    except LookupError as error:
        raise InputError(f"found the unknown encoding {name!r}", "", remedy) from error
    except ValueError:  # UnicodeError among them
        pass
    raise InputError(f"found the encoding {name!r}, which is not compatible with ASCII", "", remedy)
