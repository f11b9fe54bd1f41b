"""The files that generated targets are written to."""

from collections.abc import Callable, Sequence
from typing import BinaryIO

import numpy as np

from keras_encdec.decoding.target_writers import TextWriter
from keras_encdec.decoding.text_generator import TextHypothesis
from keras_encdec.formats.encodings import FileEncoding, unencodable
from keras_encdec.formats.file_path import FilePath


class TargetFiles:
    """Writes the targets of sources, and their alignments where these are asked for.

    Args:
        writer: TextWriter, which makes the text of the targets.
        output: binary file for the targets.
        alignments: binary file for the alignments; `None` where none are written.
        alignment_line: function that makes a line of that file, see `keras_encdec.formats.alignment_lines`.
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
