"""Word alignments in the format of Moses: lines of links such as `0-0 1-2`."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_encdec.errors import FilePath, InputError, quoted
from keras_encdec.formats.encodings import without_mark
from keras_encdec.formats.fields import FIELD_SPACE, split_tokens
from keras_encdec.formats.pair_format import PairFormat, Record
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.runtime.input_lines import InputLines, unequal_lines
from keras_encdec.runtime.progress import counted
from keras_encdec.task_options import ALIGNMENT_FORMATS, AlignmentOptions

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


#: The links of a pair: source position and target position of words that are translations of each other, from 0.
Links = list[tuple[int, int]]
#: Source words, target words and the links between them.
AlignedWordPair = tuple[Sequence[str], Sequence[str], Links]
#: Formats a pair's line in a file of alignments from source words, target words and attention; see `links_line`.
AlignmentLine = Callable[[Sequence[str], Sequence[str], "npt.NDArray[np.floating]"], str]

_LINK = re.compile(rb"(\d{1,9})-(\d{1,9})")


class LinksLine(NamedTuple):
    """The links of one pair, as a line of a file.

    Attributes:
        text: bytes. Links `i-j` separated by spaces: source position i and target position j, from 0.
        path: the file.
        line: int. The number of the line.
    """

    text: bytes
    path: FilePath
    line: int

    def parse(self, source_words: int, target_words: int) -> Links:
        """Parses the links of a pair of sentences of these lengths, in the order of the line, without duplicates.

        Raises:
            InputError: if a link is malformed, or a position is beyond the end of the source or the target.

        Example:

        >>> LinksLine(b"0-0 2-1", "corpus.align", 1).parse(3, 2)
        [(0, 0), (2, 1)]
        """
        links: Links = []
        for text in split_tokens(self.text.strip(FIELD_SPACE)):
            match = _LINK.fullmatch(text)
            link = (int(match[1]), int(match[2])) if match else None
            if link is None:
                expected = "expected a source and a target position, from 0, such as 2-1"
            elif link[0] < source_words and link[1] < target_words:
                links.append(link)
                continue
            else:
                target = counted(target_words, "words")
                expected = f"expected positions in a source of {source_words} and a target of {target}"
            remedy = "align the words of these texts, with the source position first in each link"
            raise InputError(f"found the link {quoted(text)}", expected, remedy, self.path, self.line)
        return list(dict.fromkeys(links))


def embedded_links(reader: RecordReader[Record], pair_format: PairFormat) -> Iterator[tuple[Record, LinksLine]]:
    """Yields each well-formed record of a format whose lines contain links, with its links.

    Raises:
        InputError: if a line has no links, or is malformed and the reader stops at such lines.
    """
    for record in reader:
        if record.problem is None:
            text = pair_format.links(record)
            if text is None:
                remedy = "give the alignment in a separate file, with --alignment"
                raise reader.lines.error("found no word alignment", "expected one on each line", remedy)
            yield record, LinksLine(text, reader.lines.path, reader.lines.line_number)


def links_from_file(reader: RecordReader[Record], path: FilePath) -> Iterator[tuple[Record, LinksLine]]:
    """Yields each well-formed record of a reader, with the line of the same number in a file of links.

    Raises:
        InputError: if one of the two files has more lines than the other or cannot be read.
    """
    with InputLines(path) as lines:
        for record, text in itertools.zip_longest(reader, lines):
            if record is None or text is None:
                remedy = "make the n-th line the word alignment of the n-th pair"
                raise unequal_lines(lines, reader.lines, remedy=remedy)
            if record.problem is None:
                yield record, LinksLine(without_mark(text, lines.line_number), path, lines.line_number)


END_WORD = "</s>"


def links_line(source_words: Sequence[str], words: Sequence[str], attention: "npt.NDArray[np.floating]") -> str:
    """Formats links as Moses does, "0-0 2-1": each target word is linked to the source word that it attends to most.

    A target word that attends most to the end of the source has no link.

    Args:
        source_words, words: lists of str. The source and the target.
        attention: float array `(tokens, source_tokens)`. Both sides include the end of sequence.
    """
    most: list[int] = attention[: len(words)].argmax(axis=1).tolist()
    return " ".join(f"{i}-{j}" for j, i in enumerate(most) if i < len(source_words))


def weights_line(source_words: Sequence[str], words: Sequence[str], attention: "npt.NDArray[np.floating]") -> str:
    """Formats attention as JSON: "source" and "target", lists of words, and "weights", one row per target token.

    Both lists end with "</s>", the end of sequence. Weights are rounded to six decimals. The arguments are those of
    `links_line`.
    """
    weights = [[round(float(weight), 6) for weight in row] for row in attention]
    sides = {"source": [*source_words, END_WORD], "target": [*words, END_WORD]}
    return json.dumps({**sides, "weights": weights}, ensure_ascii=False)


ALIGNMENT_LINES = dict(zip(ALIGNMENT_FORMATS, (links_line, weights_line), strict=True))


def alignment_line(options: AlignmentOptions) -> AlignmentLine | None:
    """Returns the function that makes the lines of a file of alignments, such as `links_line`; `None` without one."""
    return ALIGNMENT_LINES[options.alignment_format or "links"] if options.alignments else None
