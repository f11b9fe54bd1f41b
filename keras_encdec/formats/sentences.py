"""Sentences of a text file, one a line, all in memory."""

from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding, undecodable
from keras_encdec.formats.files import InputLines


def read_sentences(path, encoding=None):
    """Reads a text file whose lines are numbered: every line is a sentence, an empty one an empty sentence.

    Carriage returns at the ends of lines and a byte-order mark are left out.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The file's encoding; bytes that it cannot decode are carried through as lone
            surrogates. Defaults to `None`: UTF-8, and other bytes are an error.

    Returns:
        list of str.

    Raises:
        InputError: when the file cannot be read, or a line cannot be decoded.
    """
    encoding, sentences = FileEncoding(encoding), []
    with InputLines(path) as lines:
        try:
            for raw in lines:
                sentences.append(encoding.decode(raw.removesuffix(b"\r")))
        except UnicodeDecodeError as error:
            raise undecodable(error, path, lines.line_number) from None
    if encoding.is_utf8:
        sentences[0] = sentences[0].removeprefix(BYTE_ORDER_MARK)
    return sentences
