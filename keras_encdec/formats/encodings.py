"""The encoding of text files, and the characters that Moses escapes."""

import codecs
import re

from keras_encdec.errors import InputError
from keras_encdec.formats.fields import split_tokens
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


# Moses's own order: the ampersand last when taking escapes off, so that "&amp;lt;" gives "&lt;".
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
# Written by old versions of Moses, and only read.
_OLD_ESCAPES = (("&bar;", "|"), ("&bra;", "["), ("&ket;", "]"))
# Each escape and what it stands for, in the order in which they come off.
UNESCAPING = _OLD_ESCAPES + _ESCAPES
_FACTORED_WORD = re.compile(r"(?<![^ \t])([^ \t|]+)\|[^ \t]*")


def unescape(phrase: str) -> str:
    """Takes Moses's escapes off.

    Args:
        phrase: str.

    Returns:
        str. The phrase with `&quot; &apos; &#124; &#91; &#93; &lt; &gt; &amp;`, and the older
        `&bar; &bra; &ket;`, replaced by what they stand for.

    Example:

    >>> unescape("l &apos;&quot; &amp;lt; &eacute;")
    'l \\'" &lt; &eacute;'
    """
    if "&" in phrase:
        for escaped, plain in UNESCAPING:
            phrase = phrase.replace(escaped, plain)
    return phrase


def escape(phrase: str) -> str:
    """Puts Moses's escapes on: the inverse of `unescape`.

    Args:
        phrase: str.

    Returns:
        str. `unescape(escape(phrase))` is `phrase`.

    Example:

    >>> escape("R&D | [x]")
    'R&amp;D &#124; &#91;x&#93;'
    """
    for escaped, plain in reversed(_ESCAPES):
        phrase = phrase.replace(plain, escaped)
    return phrase


def surface(phrase: str) -> str:
    """Leaves of each factored word its first factor, the word form.

    A word that begins with a bar has no word form and stays as it is. Comes before `unescape`: `&#124;`
    is a bar in the text, not one between factors.

    Args:
        phrase: str. Words separated by spaces, such as `word|POS|lemma`.

    Returns:
        str.

    Example:

    >>> surface("the|DT houses|NNS|house |")
    'the houses |'
    """
    return _FACTORED_WORD.sub(r"\1", phrase) if "|" in phrase else phrase


def model_words(phrase: str, factored: bool = True) -> list[str]:
    """The words of a phrase as the model reads them: without factors, without escapes.

    Only spaces and tabs separate words, see `split_tokens`.

    Args:
        phrase: str. A phrase of a table.
        factored: bool. Whether a bar in a word separates factors. Defaults to `True`.

    Returns:
        list of str, empty for an empty phrase.

    Example:

    >>> model_words(" l|DET  &#124;|PUNC 10\\u00a0000|NUM ")
    ['l', '|', '10\\xa0000']
    """
    if factored and "|" in phrase:
        phrase = _FACTORED_WORD.sub(r"\1", phrase)
    return split_tokens(unescape(phrase))
