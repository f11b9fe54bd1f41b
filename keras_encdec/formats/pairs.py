"""Pairs of source and target text: two columns of one file, or two files line by line."""

from collections import namedtuple

from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import BYTE_ORDER_MARK
from keras_encdec.formats.files import InputLines
from keras_encdec.formats.malformed_line import MalformedLine
from keras_encdec.formats.record_reader import RecordReader

PairRecord = namedtuple("PairRecord", "raw source target problem")
PairRecord.__doc__ = """One pair of phrases or sentences.

    Attributes:
        raw: bytes. The line as it stands, without its line feed; of two files, both lines and a tab between.
        source: str; empty when malformed.
        target: str; empty when malformed.
        problem: `None`, or the sentence that says what is wrong with the line.
    """


def append_columns(raw, columns):
    """Adds columns to a line of tab-separated ones; no other byte changes.

    Args:
        raw: bytes. The line, without its line feed; a carriage return at its end stays there.
        columns: list of str.

    Returns:
        bytes.

    Example:

    >>> append_columns(b"le\\tthe\\r", ["-0.25", "0"])
    b'le\\tthe\\t-0.25\\t0\\r'
    """
    added = "".join(["\t" + column for column in columns]).encode("utf-8", "surrogateescape")
    return raw[:-1] + added + b"\r" if raw.endswith(b"\r") else raw + added


class _PairReader(RecordReader):
    """What the readers share: one file, unless a reader opens another."""

    def __init__(self, path, encoding=None, on_error="stop"):
        super().__init__(encoding, on_error, "pass over such lines")
        self._records, self.lines = self._read(), InputLines(path)

    def _malformed(self, raw, error, lines=None):
        return PairRecord(raw, "", "", self._problem(error, lines))

    def _decode(self, data, first):
        text = data.decode(self._encoding.codec, self._encoding.errors)
        return text.removeprefix(BYTE_ORDER_MARK) if first and self._encoding.is_utf8 else text


class TsvReader(_PairReader):
    """Reads pairs from a file of tab-separated columns: source, target and any others.

    Every line gives exactly one record, in order. A line with one column, or with bytes that are not
    UTF-8 when no encoding was declared, is malformed; an empty source or target is not. Carriage returns
    at the ends of lines and a byte-order mark are kept in `raw` and left out of the text.

    Use it as a context manager, or call `close`; it iterates once.

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

    Example:

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "pairs.tsv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("the house\\tla maison\\t12\\n")
    ...     with TsvReader(path) as reader:
    ...         print([(record.source, record.target) for record in reader])
    [('the house', 'la maison')]
    """

    def _read(self):
        first = True
        for raw in self.lines:
            columns = raw.removesuffix(b"\r").split(b"\t", 2)
            try:
                if len(columns) > 1:
                    source, target = self._decode(columns[0], first), self._decode(columns[1], False)
                    record = PairRecord(raw, source, target, None)
                else:
                    missing = MalformedLine("found no tab", "expected source and target separated by one")
                    record = self._malformed(raw, missing)
            except UnicodeDecodeError as error:
                record = self._malformed(raw, error)
            first = False
            yield record


class ParallelReader(_PairReader):
    """Reads pairs from two files, the n-th line of one with the n-th of the other.

    Empty lines are empty texts, and no line is left out: pairs never shift. Otherwise as `TsvReader`.

    Args:
        source_path: the file of source text, plain or gzipped.
        target_path: the file of target text, plain or gzipped.
        encoding: str. The encoding of both files, as for `TsvReader`. Optional.
        on_error: str. What a malformed line does, as for `TsvReader`. Defaults to "stop".

    Attributes:
        lines: InputLines of the source, for progress.
        malformed: int. Malformed pairs so far.

    Raises:
        InputError: as for `TsvReader`, and at the end when one file has more lines than the other.
    """

    def __init__(self, source_path, target_path, encoding=None, on_error="stop"):
        super().__init__(source_path, encoding, on_error)
        try:
            self._target_lines = InputLines(target_path)
        except InputError:
            self.lines.close()
            raise

    def close(self):
        """Closes both files."""
        super().close()
        self._target_lines.close()

    def _read(self):
        source_lines, target_lines = self.lines, self._target_lines
        # One reads ahead of the other by a line at most; None stands for the end of either.
        source, target = next(iter(source_lines), None), next(iter(target_lines), None)
        while source is not None and target is not None:
            yield self._pair(source, target)
            source, target = next(iter(source_lines), None), next(iter(target_lines), None)
        if source is not None or target is not None:
            counts = [_count_to_end(lines) for lines in (source_lines, target_lines)]
            raise InputError(
                f"found {counts[0]} lines, and {counts[1]} lines in {target_lines.path}",
                "expected as many in both", "make the n-th line of one the translation of the other's",
                path=source_lines.path,
            )

    def _pair(self, source, target):
        source, first = source.removesuffix(b"\r"), self.lines.line_number == 1
        raw, texts = source + b"\t" + target, []
        for data, lines in ((source, self.lines), (target.removesuffix(b"\r"), self._target_lines)):
            try:
                texts.append(self._decode(data, first))
            except UnicodeDecodeError as error:
                return self._malformed(raw, error, lines)
        return PairRecord(raw, *texts, None)


class SentenceReader(_PairReader):
    """Reads sentences from one file, a line each, as the targets of pairs without a source.

    Empty lines are empty sentences. Otherwise as `TsvReader`.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The file's encoding, as for `TsvReader`. Optional.
        on_error: str. What a malformed line does, as for `TsvReader`. Defaults to "stop".

    Attributes:
        lines: InputLines, for progress.
        malformed: int. Malformed lines so far.

    Raises:
        InputError: as for `TsvReader`.
    """

    def _read(self):
        for raw in self.lines:
            try:
                target = self._decode(raw.removesuffix(b"\r"), self.lines.line_number == 1)
            except UnicodeDecodeError as error:
                yield self._malformed(raw, error)
            else:
                yield PairRecord(raw, "", target, None)


def _count_to_end(lines):
    for _ in lines:
        pass
    return lines.line_number
