"""Word alignments as Moses writes them: lines of links such as `0-0 1-2`."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError, quoted
from keras_encdec.formats.fields import AROUND, split_tokens
from keras_encdec.formats.pair_format import PairFormat, Record
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.runtime.files import STANDARD_STREAM, InputLines
from keras_encdec.runtime.os_errors import FilePath

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


Links = list[tuple[int, int]]

_LINK = re.compile(rb"(\d{1,9})-(\d{1,9})")


class LinksLine(NamedTuple):
    """The links of one pair, as they stand in a file.

    Attributes:
        text: bytes. Links `i-j` separated by spaces: source word i, target word j, from 0.
        path: the file.
        line: int. The line's number.
    """

    text: bytes
    path: FilePath
    line: int

    def parse(self, source_words: int, target_words: int) -> Links:
        """The links.

        Args:
            source_words: int. Number of words in the source.
            target_words: int. Number of words in the target.

        Returns:
            list of pairs of source position and target position, as they come. A link that is given twice is one.

        Raises:
            InputError: when a link is malformed, or names a word that the pair does not have.

        Example:

        >>> LinksLine(b"0-0 2-1", "corpus.align", 1).parse(3, 2)
        [(0, 0), (2, 1)]
        """
        links: Links = []
        for text in split_tokens(self.text.strip(AROUND)):
            match = _LINK.fullmatch(text)
            link = (int(match[1]), int(match[2])) if match else None
            if link is None:
                expected = "expected source and target position, from 0, such as 2-1"
            elif link[0] < source_words and link[1] < target_words:
                links.append(link)
                continue
            else:
                expected = f"expected positions in a source of {source_words} and a target of {target_words} words"
            raise InputError(
                f"found the link {quoted(text)}",
                expected,
                "align the same words in the same order of the sides",
                self.path,
                self.line,
            )
        return list(dict.fromkeys(links))


def own_links(reader: RecordReader[Record], pair_format: PairFormat) -> Iterator[tuple[Record, LinksLine]]:
    """The records of a format whose lines have links, with these; malformed records are left out.

    Raises:
        InputError: at a line that has none; as the reader does.
    """
    for record in reader:
        if record.problem is None:
            text = pair_format.links(record)
            if text is None:
                raise InputError(
                    "found no word alignment",
                    "expected one on each line",
                    "give the alignment in a file of its own, with --alignment",
                    reader.lines.path,
                    reader.lines.line_number,
                )
            yield record, LinksLine(text, reader.lines.path, reader.lines.line_number)


def links_beside(reader: RecordReader[Record], path: FilePath) -> Iterator[tuple[Record, LinksLine]]:
    """The records of a reader, each with the line of the same number of a file of links; malformed ones are left out.

    Args:
        reader: of the pairs.
        path: the file of links, plain or gzipped.

    Raises:
        InputError: when one has more lines than the other, or cannot be read.
    """
    with InputLines(path) as lines:
        for record in reader:
            text = next(iter(lines), None)
            if text is None:
                break
            if record.problem is None:
                yield record, LinksLine(text, path, lines.line_number)
        for rest in (lines, reader.lines):
            for _ in rest:
                pass
        if lines.line_number != reader.lines.line_number:
            raise InputError(
                f"found {lines.line_number} lines, and {reader.lines.line_number} lines in {reader.lines.path}",
                "expected as many in both",
                "make the n-th line the word alignment of the n-th pair",
                path,
            )


END_WORD = "</s>"


def links_line(source_words: Sequence[str], words: Sequence[str], attention: "npt.NDArray[np.floating]") -> str:
    """Links as Moses writes them, "0-0 2-1": the source word that each target word attends to most, from 0.

    A target word that attends most to the end of the source has no link.

    Args:
        source_words, words: lists of str, of the source and of the target.
        attention: float array `(tokens, source_tokens)`, the ends of sequence counted.
    """
    most: list[int] = attention[: len(words)].argmax(axis=1).tolist() if words else []
    return " ".join(f"{i}-{j}" for j, i in enumerate(most) if i < len(source_words))


def weights_line(source_words: Sequence[str], words: Sequence[str], attention: "npt.NDArray[np.floating]") -> str:
    """A JSON object: "source" and "target", words with the ends of sequences, and "weights", a row a target word.

    Args:
        source_words, words, attention: see `links_line`.
    """
    weights = [[round(float(weight), 6) for weight in row] for row in attention]
    sides = {"source": [*source_words, END_WORD], "target": [*words, END_WORD]}
    return json.dumps({**sides, "weights": weights}, ensure_ascii=False)


ALIGNMENT_LINES = {"links": links_line, "weights": weights_line}


def alignment_line(
    alignments: FilePath | None, alignment_format: str | None, output: FilePath
) -> "Callable[[Sequence[str], Sequence[str], npt.NDArray[np.floating]], str] | None":
    """The function that makes the lines of a file of alignments.

    Args:
        alignments: the file; `None` where none is written.
        alignment_format: str. One of `ALIGNMENT_LINES`. Defaults to `None`: "links".
        output: the file of what is aligned.

    Returns:
        such as `links_line`; `None` where no file is written.

    Raises:
        ConfigurationError: a ValueError, for another format, or one without a file; and when both files are the
            standard output.
    """
    if alignments == output == STANDARD_STREAM:
        raise ConfigurationError("found {alignments}=- with {output}=-, expected a file for one of them")
    if alignment_format and not alignments:
        raise ConfigurationError("found {alignment_format} without {alignments}, the file to write")
    if alignment_format is not None and alignment_format not in ALIGNMENT_LINES:
        raise ConfigurationError(
            "found {alignment_format}=%r, expected one of %s", alignment_format, ", ".join(ALIGNMENT_LINES)
        )
    return ALIGNMENT_LINES[alignment_format or "links"] if alignments else None


def check_carries_attention(alignments: FilePath | None, carries_attention: bool) -> None:
    """Raises ConfigurationError where alignments are asked for of a model that has no attention."""
    if alignments and not carries_attention:
        raise ConfigurationError("found {alignments} with a model that has no attention; train one with attention")
