"""Dictionaries of words and their translations, for words that a model does not know."""

import os

from keras_encdec.errors import InputError
from keras_encdec.formats import InputLines
from keras_encdec.formats.encodings import BYTE_ORDER_MARK


def read_dictionary(path: str | os.PathLike[str]) -> dict[str, str]:
    """Reads a dictionary: a line each of a source word and its translation, separated by a tab.

    A third column, such as how often the two were seen together, is passed over.

    Args:
        path: of the file, UTF-8, plain or gzipped.

    Returns:
        dict of source word to target word.

    Raises:
        InputError: naming the line, when it is not of this form, or a source word stands there twice.
    """
    dictionary: dict[str, str] = {}
    with InputLines(path) as lines:
        for raw in lines:
            number = lines.line_number
            try:
                text = raw.decode().removesuffix("\r")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"found the byte 0x{raw[error.start]:02x}", "expected UTF-8", "convert the file", path, number
                ) from None
            columns = (text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text).split("\t")
            words = [column.strip() for column in columns[:2]]
            if not 2 <= len(columns) <= 3 or not all(words):
                expected = "expected a source word, a tab and its translation"
                raise InputError(f"found {len(columns)} columns in {text[:80]!r}", expected, path=path, line=number)
            if words[0] in dictionary:
                expected = "expected one translation of each word"
                raise InputError(f"found {words[0]!r} twice", expected, path=path, line=number)
            dictionary[words[0]] = words[1]
    return dictionary
