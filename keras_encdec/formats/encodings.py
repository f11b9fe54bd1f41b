"""Encodings of text files, and the escapes and factors of Moses."""

import codecs
import re
from collections.abc import Iterator

from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats.fields import split_tokens
from keras_encdec.runtime.input_lines import InputLines

BYTE_ORDER_MARK = "\ufeff"
# Every ASCII character, and sequences that start an escape in encodings that otherwise look like ASCII.
_PROBES = (b"\\u0041\\x41", b"+AGEAYg- ~{!!~}", b"\x1b$B!!\x1b(B", bytes(range(128)))


class FileEncoding:
    r"""Encoding of a text file.

    Without a declared encoding, the file must be UTF-8, and other bytes are an error. With a declared encoding, bytes
    that it cannot decode become lone surrogates ("surrogateescape"), and are written unchanged.

    Args:
        name: str. Name of a Python codec that is compatible with ASCII. Defaults to `None`: UTF-8, checked.
        can_declare: bool. Whether the user can declare another encoding, which errors then suggest. Defaults to `True`.

    Attributes:
        codec: str. The codec's canonical name.
        errors: str. How undecodable bytes are treated: "strict" or "surrogateescape".
        is_utf8: bool. Whether the encoding is UTF-8, so that the file may begin with a byte-order mark.

    Raises:
        InputError: if the name is unknown or the encoding is not compatible with ASCII.

    Example:

    >>> FileEncoding("Latin-1").decode(b"caf\xe9")
    'café'
    """

    def __init__(self, name: str | None = None, can_declare: bool = True) -> None:
        self.codec, self.errors, self._name, self._can_declare = "utf-8", "strict", name, can_declare
        if name is not None:
            self.codec, self.errors = _canonical_name(name), "surrogateescape"
        self.is_utf8 = self.codec == "utf-8"

    def decode(self, data: bytes) -> str:
        """Decodes bytes to str.

        Raises:
            UnicodeDecodeError: if no encoding was declared and the bytes are not UTF-8.
        """
        return data.decode(self.codec, self.errors)

    def decode_line(self, data: bytes, path: FilePath, line: int) -> str:
        """Decodes a line of a file; errors name the file and the line.

        Raises:
            InputError: if no encoding was declared and the bytes are not UTF-8.
        """
        try:
            return self.decode(data)
        except UnicodeDecodeError as error:
            report = undecodable(error, path, line)
            raise (report if self._can_declare else report.without_flag()) from None

    def texts(self, lines: InputLines) -> Iterator[str]:
        """Yields the lines of a file as text, without a byte-order mark and without carriage returns at their ends.

        Raises:
            InputError: if no encoding was declared and a line is not UTF-8.
        """
        for raw in lines:
            text = self.decode_line(raw.removesuffix(b"\r"), lines.path, lines.line_number)
            yield text.removeprefix(BYTE_ORDER_MARK) if lines.line_number == 1 and self.is_utf8 else text

    def encode(self, text: str) -> bytes:
        """Encodes str to bytes, the inverse of `decode`.

        Raises:
            UnicodeEncodeError: if the encoding does not have a character of the text.
        """
        return text.encode(self.codec, "surrogateescape")

    def encode_line(
        self,
        text: str,
        path: FilePath | None,
        line: int | None = None,
        contained_in: str = "the tokenized text",
        expected: str = "one that has all of its characters",
        remedy: str = "convert the file to UTF-8",
    ) -> bytes:
        """Encodes a line of the output.

        Args:
            text: str.
            path: the file that the text comes from, named in errors.
            line: int. The number of the line that it comes from. Optional.
            contained_in: str. How an error refers to the text. Defaults to "the tokenized text".
            expected: str. The encoding that an error asks for. Defaults to one that has all characters of the text.
            remedy: str. What the user can do. Defaults to converting the file.

        Raises:
            InputError: if the encoding does not have a character of the text.
        """
        try:
            return self.encode(text)
        except UnicodeEncodeError as error:
            found = f"found {text[error.start]!r} in {contained_in}, which the encoding {self._name} does not have"
            raise InputError(found, f"expected {expected}", remedy, path, line) from None


def without_mark(raw: bytes, number: int) -> bytes:
    r"""Returns a line without the byte-order mark that may begin line number 1 of a file in UTF-8.

    Example:

    >>> without_mark(b"\xef\xbb\xbf0-0 1-1", 1)
    b'0-0 1-1'
    """
    return raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw


class NotUTF8Error(InputError):
    """Error about bytes that are not UTF-8; it says that `--encoding` declares another encoding."""

    def without_flag(self) -> InputError:
        """Returns the error for a user who cannot declare an encoding."""
        return InputError(self.found, self.expected, "convert the file to UTF-8", self.path, self.line)


def utf8(text: str) -> bytes:
    """Encodes text as UTF-8. Bytes that could not be decoded when the text was read become replacement characters."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()


def undecodable(error: UnicodeDecodeError, path: FilePath, line: int, remedy: str = "") -> NotUTF8Error:
    """Returns the error about bytes that are not UTF-8 in a line of a file without a declared encoding."""
    data, start = error.object, error.start
    around = data[max(0, start - 12) : start + 12].decode("ascii", "backslashreplace")
    return NotUTF8Error(
        f'found bytes that are not UTF-8 (0x{data[start]:02x} in "{around}")',
        "expected UTF-8",
        f"name the file's encoding, such as --encoding=latin-1{remedy}",
        path=path,
        line=line,
    )


def _canonical_name(name: str) -> str:
    remedy = "name one that contains ASCII, such as utf-8, latin-1 or cp1252, or convert the file to UTF-8"
    try:
        canonical = codecs.lookup(name).name.removesuffix("-sig")
        compatible = all(probe.decode(canonical) == probe.decode("ascii") for probe in _PROBES)
        # Codecs that are not for files, such as idna, raise an error here.
        b"a\xffb".decode(canonical, "surrogateescape")
        if compatible:
            return canonical
    except LookupError as error:
        raise InputError(f"found the unknown encoding {name!r}", "", remedy) from error
    except ValueError:  # UnicodeError among them
        pass
    raise InputError(f"found the encoding {name!r}, which is not compatible with ASCII", "", remedy)


# In the order of Moses: the ampersand is unescaped last, so that "&amp;lt;" gives "&lt;".
_ESCAPES = (
    ("&#124;", "|"),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", '"'),
    ("&apos;", "'"),
    ("&#91;", "["),
    ("&#93;", "]"),
    ("&amp;", "&"),
)
# Escapes of old versions of Moses, which are read but not written.
_OLD_ESCAPES = (("&bar;", "|"), ("&bra;", "["), ("&ket;", "]"))
# Each escape and its character, in the order in which `unescape` replaces them.
UNESCAPING = _OLD_ESCAPES + _ESCAPES
_FACTORED_WORD = re.compile(r"(?<![^ \t])([^ \t|]+)\|[^ \t]*")


def unescape(phrase: str) -> str:
    r"""Replaces Moses's escapes with their characters.

    Returns:
        str. The phrase without the escapes `&quot; &apos; &#124; &#91; &#93; &lt; &gt; &amp;` and the older
        `&bar; &bra; &ket;`.

    Example:

    >>> unescape("l &apos;&quot; &amp;lt; &eacute;")
    'l \'" &lt; &eacute;'
    """
    if "&" in phrase:
        for escaped, plain in UNESCAPING:
            phrase = phrase.replace(escaped, plain)
    return phrase


def escape(phrase: str) -> str:
    """Replaces characters with Moses's escapes, the inverse of `unescape`.

    Example:

    >>> escape("R&D | [x]")
    'R&amp;D &#124; &#91;x&#93;'
    """
    for escaped, plain in reversed(_ESCAPES):
        phrase = phrase.replace(plain, escaped)
    return phrase


def surface(phrase: str) -> str:
    """Reduces each factored word to its first factor, the word form.

    A word that begins with a bar has no word form and stays unchanged. Call this function before `unescape`: `&#124;`
    is a bar in the text, and not a separator of factors.

    Args:
        phrase: str. Words separated by spaces, such as `word|POS|lemma`.

    Example:

    >>> surface("the|DT houses|NNS|house |")
    'the houses |'
    """
    return _FACTORED_WORD.sub(r"\1", phrase) if "|" in phrase else phrase


def model_words(phrase: str, factored: bool = True) -> list[str]:
    r"""Returns the words of a phrase as the model reads them, without factors and escapes.

    Only spaces and tabs separate words, see `split_tokens`.

    Args:
        phrase: str. A phrase of a phrase table.
        factored: bool. Whether a bar in a word separates factors. Defaults to `True`.

    Returns:
        list of str, empty for an empty phrase.

    Example:

    >>> model_words(" l|DET  &#124;|PUNC 10\u00a0000|NUM ")
    ['l', '|', '10\xa0000']
    """
    return split_tokens(unescape(surface(phrase) if factored else phrase))
