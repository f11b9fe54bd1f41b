"""Word alignments as Moses writes them: lines of links such as `0-0 1-2`."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from keras_encdec.errors import InputError, quoted
from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.files import InputLines
from keras_encdec.formats.pair_format import PairFormat, Record
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.formats.tokens import AROUND, split_tokens

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
        links = []
        for text in split_tokens(self.text.strip(AROUND)):
            match = _LINK.fullmatch(text)
            link = tuple(map(int, match.groups())) if match else None
            if link is None:
                expected = "expected source and target position, from 0, such as 2-1"
            elif link[0] < source_words and link[1] < target_words:
                links.append(link)
                continue
            else:
                expected = f"expected positions in a source of {source_words} and a target of {target_words} words"
            raise InputError(
                f"found the link {quoted(text)}", expected,
                "align the same words in the same order of the sides", self.path, self.line,
            )  # fmt: skip
        return list(dict.fromkeys(links))


def own_links(reader: RecordReader, pair_format: PairFormat) -> Iterator[tuple[Record, LinksLine]]:
    """The records of a format whose lines have links, with these; malformed records are left out.

    Raises:
        InputError: at a line that has none; as the reader does.
    """
    for record in reader:
        if record.problem is None:
            text = pair_format.links(record)
            if text is None:
                raise InputError(
                    "found no word alignment", "expected one on each line",
                    "give the alignment in a file of its own, with --alignment",
                    reader.lines.path, reader.lines.line_number,
                )  # fmt: skip
            yield record, LinksLine(text, reader.lines.path, reader.lines.line_number)


def links_beside(reader: RecordReader, path: FilePath) -> Iterator[tuple[Record, LinksLine]]:
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
                "expected as many in both", "make the n-th line the word alignment of the n-th pair", path,
            )  # fmt: skip
