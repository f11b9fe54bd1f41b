"""What the readers of plain pairs of text share."""

import abc
from collections import namedtuple
from collections.abc import Iterator

from keras_encdec.formats.encodings import BYTE_ORDER_MARK
from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.files import InputLines
from keras_encdec.formats.record_reader import RecordReader

PairRecord = namedtuple("PairRecord", "raw source target problem")
PairRecord.__doc__ = """One pair of phrases or sentences.

    Attributes:
        raw: bytes. The line as it stands, without its line feed; of two files, both lines and a tab between.
        source: str; empty when malformed.
        target: str; empty when malformed.
        problem: `None`, or the sentence that says what is wrong with the line.
    """


class PairReader(RecordReader):
    """Base of readers of plain pairs of text: a subclass has `records`, and opens further files if need be.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The file's encoding; bytes that it cannot decode are carried through as lone
            surrogates. Defaults to `None`: UTF-8, and other bytes are malformed.
        on_error: str. What a malformed line does: "stop" raises, "keep" gives a record that says so.
            Defaults to "stop".

    Attributes:
        lines: InputLines, for progress.
        malformed: int. Malformed lines so far.

    Raises:
        InputError: when the file cannot be read or the encoding cannot be used; on a malformed line.
    """

    def __init__(self, path: FilePath, encoding: str | None = None, on_error: str = "stop") -> None:
        super().__init__(encoding, on_error)
        self._records, self.lines = self.records(), InputLines(path)

    @abc.abstractmethod
    def records(self) -> Iterator[PairRecord]:
        """Yields a record for each line of `lines`, in order."""

    def decode(self, data: bytes, begins_line: bool = True) -> str:
        """Text of the current line, without the byte-order mark that may begin the file.

        Args:
            data: bytes.
            begins_line: bool. Whether they are the line's first. Defaults to `True`.

        Raises:
            UnicodeDecodeError: where bytes are not UTF-8 and no encoding was declared.
        """
        text = data.decode(self._encoding.codec, self._encoding.errors)
        if begins_line and self._encoding.is_utf8 and self.lines.line_number == 1:
            return text.removeprefix(BYTE_ORDER_MARK)
        return text

    def malformed_record(self, raw: bytes, error: ValueError, lines: InputLines | None = None) -> PairRecord:
        """The record of a line that cannot be used, or an error, as `on_error` says.

        Args:
            raw: bytes. The line.
            error: MalformedLine or UnicodeDecodeError.
            lines: InputLines that it stands in. Defaults to `self.lines`.

        Raises:
            InputError: where malformed lines stop.
        """
        return PairRecord(raw, "", "", self._problem(error, lines))
