"""Dictionaries of words and their translations, for words that a model does not know."""

import os

from keras_encdec.errors import InputError, quoted
from keras_encdec.formats import InputLines
from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding, undecodable
from keras_encdec.formats.escaping import unescape


def read_dictionary(
    path: str | os.PathLike[str], encoding: str | None = None, can_declare: bool = True
) -> dict[str, str]:
    """Reads a dictionary: a line each of a source word and its translation, separated by a tab.

    Moses's escapes are taken off. A third column, such as how often the two were seen together, is passed over.

    Args:
        path: of the file, plain or gzipped.
        encoding: str. See `FileEncoding`. Defaults to `None`: UTF-8, and other bytes are an error.
        can_declare: bool. Whether the caller can be given another encoding, for the report. Defaults to `True`.

    Returns:
        dict of source word to target word.

    Raises:
        InputError: naming the line, when it is not of this form, or a source word stands there twice.
    """
    dictionary: dict[str, str] = {}
    file_encoding = FileEncoding(encoding)
    with InputLines(path) as lines:
        for raw in lines:
            number = lines.line_number
            try:
                text = file_encoding.decode(raw.removesuffix(b"\r"))
            except UnicodeDecodeError as error:
                report = undecodable(error, path, number)
                if not can_declare:
                    report = InputError(report.found, "expected UTF-8", "convert the file to UTF-8", path, number)
                raise report from None
            is_first = number == 1 and file_encoding.is_utf8
            columns = (text.removeprefix(BYTE_ORDER_MARK) if is_first else text).split("\t")
            words = [unescape(column.strip(" ")) for column in columns[:2]]
            if not 2 <= len(columns) <= 3 or not all(words):
                expected = "expected a source word, a tab and its translation"
                raise InputError(f"found {len(columns)} columns in {quoted(text)}", expected, path=path, line=number)
            if words[0] in dictionary:
                expected = "expected one translation of each word"
                raise InputError(f"found {quoted(words[0])} twice", expected, path=path, line=number)
            dictionary[words[0]] = words[1]
    return dictionary
