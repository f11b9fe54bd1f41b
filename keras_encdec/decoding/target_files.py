"""The files that generated targets are written to."""

from collections.abc import Callable, Sequence
from typing import BinaryIO

import numpy as np

from keras_encdec.decoding.text_generator import TextHypothesis
from keras_encdec.formats.encodings import FileEncoding, unencodable
from keras_encdec.formats.escaping import escape
from keras_encdec.runtime.os_errors import FilePath


class TextWriter:
    """The best target of each source, a line each.

    Args:
        escape_targets: bool. Whether targets get Moses's escapes, such as `&apos;`.
        most: int. Hypotheses of a source that are written, at most; `None` for all.
        with_source: bool. Whether there are sources.
        with_count: bool. Whether hypotheses were drawn, so that it matters how often.
        feature_name: str. Name of ln p.
        join: function of words to text. Defaults to joining them with spaces.
    """

    def __init__(
        self,
        escape_targets: bool,
        most: int | None,
        with_source: bool,
        with_count: bool,
        feature_name: str,
        join: Callable[[Sequence[str]], str] = " ".join,
    ) -> None:
        self._escape_targets, self._most = escape_targets, most
        self._with_source, self._with_count, self._feature_name = with_source, with_count, feature_name
        self._join = join

    def written(self, hypotheses: Sequence[TextHypothesis]) -> Sequence[TextHypothesis]:
        """Those of a source's hypotheses that are written."""
        return hypotheses[:1]

    def lines(self, number: int, source: str, hypotheses: Sequence[TextHypothesis]) -> str:
        """The lines of a source.

        Args:
            number: int. Of the source among all, from 0.
            source: str.
            hypotheses: the best first, at least one.
        """
        return self._target(hypotheses[0]) + "\n"

    def _target(self, hypothesis):
        text = self._join(hypothesis.words)
        return escape(text) if self._escape_targets else text


class TsvWriter(TextWriter):
    """Lines of source (if any), target, ln p and (of samples) count."""

    def written(self, hypotheses: Sequence[TextHypothesis]) -> Sequence[TextHypothesis]:
        return hypotheses[: self._most]

    def lines(self, number: int, source: str, hypotheses: Sequence[TextHypothesis]) -> str:
        given = [source.replace("\t", " ")] if self._with_source else []
        rows = [[*given, self._target(each), f"{each.log_prob:.6f}"] for each in self.written(hypotheses)]
        if self._with_count:
            rows = [[*row, str(each.count)] for row, each in zip(rows, hypotheses, strict=False)]
        return "".join("\t".join(row) + "\n" for row in rows)


class MosesNBestWriter(TsvWriter):
    """A Moses n-best list: `number ||| target ||| feature= ln p ||| score`, always with escapes."""

    def lines(self, number: int, source: str, hypotheses: Sequence[TextHypothesis]) -> str:
        return "".join(
            f"{number} ||| {escape(self._join(each.words))}  ||| {self._feature_name}= {each.log_prob:.6f} ||| "
            f"{each.score:.6g}\n"
            for each in self.written(hypotheses)
        )


TARGET_WRITERS = {"text": TextWriter, "tsv": TsvWriter, "moses_nbest": MosesNBestWriter}


class TargetFiles:
    """Writes the targets of sources, and their alignments where these are asked for.

    Args:
        writer: TextWriter, which makes the text of the targets.
        output: binary file for the targets.
        alignments: binary file for the alignments; `None` where none are written.
        alignment_line: function that makes a line of that file, see `keras_encdec.formats.alignments`.
        encoding: str. Encoding of both files; `None` for UTF-8.
        input: path of the sources, named in errors; `None` where a language model generates.
    """

    def __init__(
        self,
        writer: TextWriter,
        output: BinaryIO,
        alignments: BinaryIO | None,
        alignment_line: Callable[[Sequence[str], Sequence[str], np.ndarray], str] | None,
        encoding: str | None,
        input: FilePath | None,
    ) -> None:
        self._writer, self._output = writer, output
        self._alignments, self._alignment_line = alignments, alignment_line
        self._encoding, self._encoding_name, self._input = FileEncoding(encoding), encoding, input

    def write(self, first: int, sources: Sequence[str], results: Sequence[Sequence[TextHypothesis]]) -> None:
        """Writes the targets of consecutive sources.

        Args:
            first: int. Number of the first source among all, from 0.
            sources: list of str.
            results: for each source its hypotheses, the best first, at least one.

        Raises:
            InputError: when the encoding does not have what was generated.
        """
        for number, (source, hypotheses) in enumerate(zip(sources, results, strict=True), start=first):
            self._output.write(self._encoded(self._writer.lines(number, source, hypotheses), number))
            if self._alignments:
                lines = (
                    self._alignment_line(each.source_words, each.words, each.attention) + "\n"
                    for each in self._writer.written(hypotheses)
                )
                self._alignments.write(self._encoded("".join(lines), number))
        self._output.flush()

    def _encoded(self, text: str, number: int) -> bytes:
        try:
            return self._encoding.encode(text)
        except UnicodeEncodeError as error:
            expected, remedy = "one that has all of the model's words", "leave --encoding out, for UTF-8"
            raise unencodable(
                error, self._encoding_name, self._input, number + 1, "what was generated", expected, remedy
            ) from None
