"""Text files with one sentence per line."""

import dataclasses
from collections.abc import Generator

from keras_encdec.errors import FilePath
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.formats.pair_format import PairFormat
from keras_encdec.formats.record_reader import PairReader, PairRecord, RecordReader
from keras_encdec.runtime.files import InputLines


class SentenceReader(PairReader):
    """Reads a file with one sentence per line. Each sentence is the target of a pair without a source.

    An empty line is an empty sentence. Carriage returns, the byte-order mark and malformed lines are treated as by
    `TsvReader`. Arguments, attributes and errors are those of `PairReader`.
    """

    def records(self) -> Generator[PairRecord]:
        for raw in self.lines:
            try:
                record = PairRecord(raw, "", self.decode(raw.removesuffix(b"\r")), None)
            except UnicodeDecodeError as error:
                record = self.malformed_record(raw, error)
            yield record


class SentenceFormat(PairFormat):
    """Targets without sources, one per line, for language models."""

    name = "sentences"
    description = "a text file with one sentence per line"

    def open_reader(
        self,
        path: FilePath,
        source_path: FilePath | None = None,
        encoding: str | None = None,
        on_error: str = "stop",
    ) -> RecordReader[PairRecord]:
        return SentenceReader(path, encoding, on_error)


@dataclasses.dataclass(frozen=True)
class Sentences:
    """The sentences of a file, in place of its path where they are needed many times.

    Attributes:
        path: str. The path of the file, as errors name it.
        texts: list of str, see `read_sentences`.
    """

    path: str
    texts: list[str]

    def __fspath__(self) -> str:
        return self.path


def read_sentences(path: FilePath, encoding: str | None = None) -> list[str]:
    """Reads a text file with one sentence per line, so that sentence n is on line n + 1.

    An empty line is an empty sentence. Carriage returns at the ends of lines and a byte-order mark are removed.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The encoding of the file, see `FileEncoding`. Defaults to `None`: UTF-8, and other bytes are an
            error.

    Returns:
        list of str.

    Raises:
        InputError: if the file cannot be read or a line cannot be decoded.
    """
    with InputLines(path) as lines:
        return list(FileEncoding(encoding).texts(lines))
