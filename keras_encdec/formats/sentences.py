"""Sentences of a text file, one a line."""

from collections.abc import Generator

from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding
from keras_encdec.formats.pair_format import PairFormat
from keras_encdec.formats.record_reader import PairReader, PairRecord, RecordReader
from keras_encdec.runtime.files import InputLines
from keras_encdec.runtime.os_errors import FilePath


class SentenceReader(PairReader):
    """Reads sentences from one file, a line each, as the targets of pairs without a source.

    Empty lines are empty sentences. Otherwise as `TsvReader`. Arguments, attributes and errors are those of
    `PairReader`.
    """

    def records(self) -> Generator[PairRecord]:
        for raw in self.lines:
            try:
                record = PairRecord(raw, "", self.decode(raw.removesuffix(b"\r")), None)
            except UnicodeDecodeError as error:
                record = self.malformed_record(raw, error)
            yield record


class SentenceFormat(PairFormat):
    """Targets alone, a line each, for language models."""

    name = "sentences"
    description = "sentences, a line each"

    def open_reader(
        self,
        path: FilePath,
        source_path: FilePath | None = None,
        encoding: str | None = None,
        on_error: str = "stop",
    ) -> RecordReader[PairRecord]:
        return SentenceReader(path, encoding, on_error)


def read_sentences(path: FilePath, encoding: str | None = None) -> list[str]:
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
    file_encoding = FileEncoding(encoding)
    sentences: list[str] = []
    with InputLines(path) as lines:
        for raw in lines:
            sentences.append(file_encoding.decode_line(raw.removesuffix(b"\r"), path, lines.line_number))
    if file_encoding.is_utf8:
        sentences[0] = sentences[0].removeprefix(BYTE_ORDER_MARK)
    return sentences
