"""Parallel text: pairs whose sources and targets are in two files."""

import codecs
from collections.abc import Generator

from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats.record_reader import PairReader, PairRecord, RecordReader
from keras_encdec.formats.tsv import TsvFormat
from keras_encdec.runtime.files import InputLines, unequal_lines


class ParallelReader(PairReader):
    """Reads pairs from two files: the n-th pair is the n-th line of both.

    An empty line is an empty text, and no line is left out, so that the lines stay aligned. Carriage returns, the
    byte-order mark and malformed lines are treated as by `TsvReader`.

    Args:
        source_path: the file of sources, plain or gzipped.
        target_path: the file of targets, plain or gzipped.
        encoding: str. The encoding of both files, see `PairReader`. Optional.
        on_error: str. What to do at a malformed line, see `PairReader`. Defaults to "stop".

    Attributes:
        lines: InputLines of the sources, for progress.
        malformed: int. Malformed pairs so far.

    Raises:
        InputError: for the reasons of `PairReader`, and at the end if one file has more lines than the other.
    """

    def __init__(
        self, source_path: FilePath, target_path: FilePath, encoding: str | None = None, on_error: str = "stop"
    ) -> None:
        super().__init__(source_path, encoding, on_error)
        try:
            self._target_lines = InputLines(target_path)
        except InputError:
            self.lines.close()
            raise

    def close(self) -> None:
        """Closes both files."""
        super().close()
        self._target_lines.close()

    def records(self) -> Generator[PairRecord]:
        source_lines, target_lines = self.lines, self._target_lines
        # The source is at most one line ahead of the target. None marks the end of a file.
        source, target = next(iter(source_lines), None), next(iter(target_lines), None)
        while source is not None and target is not None:
            yield self._pair(source, target)
            source, target = next(iter(source_lines), None), next(iter(target_lines), None)
        if source is not None or target is not None:
            raise unequal_lines(source_lines, target_lines)

    def _pair(self, source: bytes, target: bytes) -> PairRecord:
        source = source.removesuffix(b"\r")
        texts: list[str] = []
        # The line is written as tab-separated columns, which a tab or a byte-order mark within a text would break.
        mark = codecs.BOM_UTF8 if self.lines.line_number == 1 else b""
        raw = source.replace(b"\t", b" ") + b"\t" + target.removeprefix(mark).replace(b"\t", b" ")
        for data, lines in ((source, self.lines), (target.removesuffix(b"\r"), self._target_lines)):
            try:
                texts.append(self.decode(data))
            except UnicodeDecodeError as error:
                return self.malformed_record(raw, error, lines)
        return PairRecord(raw, texts[0], texts[1], None)


class ParallelFormat(TsvFormat):
    """A file of sources and a file of targets, line by line. The output is a single file, in `TsvFormat`."""

    name = "parallel"
    description = "parallel text (a file of targets and one of their sources)"
    has_source_file = True
    source_in_step = True

    def open_reader(
        self,
        path: FilePath,
        source_path: FilePath | None = None,
        encoding: str | None = None,
        on_error: str = "stop",
    ) -> RecordReader[PairRecord]:
        return ParallelReader(self.required_source(source_path), path, encoding, on_error)
