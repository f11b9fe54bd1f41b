"""Precision, recall and error rate of word alignments against reference links."""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keras_encdec.errors import FilePath, InputError, quoted
from keras_encdec.formats.encodings import without_mark
from keras_encdec.formats.fields import FIELD_SPACE, split_tokens
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.progress import counted
from keras_encdec.smt.evaluation.evaluate import text_table

Link = tuple[int, int]

_MOSES = re.compile(rb"(\d{1,9})([-?])(\d{1,9})")
_NAACL = re.compile(rb"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[\d.eE+-]+)?")
_WITHOUT_NULL = (
    "leave out links to NULL, which have the position 0, such as with awk '$2 && $3', from the reference and from all "
    "systems"
)
_GIZA_HEAD = re.compile(rb"# Sentence pair \((\d{1,9})\) source length (\d{1,9}) target length (\d{1,9})\b.*")
# Without the first part, the time for a long word would grow with the square of its length.
_GIZA_WORD = re.compile(rb"(?<!\S)(\S+) \(\{((?: \d{1,9})*) \}\)")


class SentenceLinks(NamedTuple):
    """The links of one sentence pair: source position and target position, from 0.

    Attributes:
        sure: set of links.
        possible: set of links, which contains the sure ones.
    """

    sure: set[Link]
    possible: set[Link]


@dataclasses.dataclass(frozen=True)
class AlignmentScore:
    """The links of a system compared with reference links, over all sentences.

        precision = |A and P| / |A|,   recall = |A and S| / |S|
        AER       = 1 - (|A and S| + |A and P|) / (|A| + |S|)

    A are the links of the system, S the sure and P the possible links of the reference; sure links are possible, too.

    Attributes:
        system: str. The system's name.
        links: int. |A|.
        sure: int. |S|.
        possible: int. |P|.
        found_sure: int. |A and S|.
        found_possible: int. |A and P|.
        sentences: int. Number of sentence pairs.

    Reference:
        - Och and Ney, 2003, "A Systematic Comparison of Various Statistical Alignment Models", section 5.1

    Example:

    >>> round(AlignmentScore("a", 4, sure=2, possible=5, found_sure=2, found_possible=3, sentences=1).error_rate, 4)
    0.1667
    """

    system: str
    links: int
    sure: int
    possible: int
    found_sure: int
    found_possible: int
    sentences: int

    @property
    def precision(self) -> float:
        """Share of the system's links that are possible; nan without links."""
        return self.found_possible / self.links if self.links else math.nan

    @property
    def recall(self) -> float:
        """Share of the sure links that the system has; nan without sure links."""
        return self.found_sure / self.sure if self.sure else math.nan

    @property
    def error_rate(self) -> float:
        """Alignment error rate (AER), 0 to 1, the lower the better."""
        return 1 - (self.found_sure + self.found_possible) / (self.links + self.sure)

    def to_dict(self) -> dict[str, float | int | str | None]:
        """Returns the score as values that JSON can represent."""
        rates = {"precision": self.precision, "recall": self.recall, "error_rate": self.error_rate}
        numbers = {name: None if math.isnan(value) else value for name, value in rates.items()}
        return {**dataclasses.asdict(self), **numbers}


def evaluate_alignments(
    systems: Mapping[str, FilePath], reference: FilePath, possible: FilePath | None = None
) -> tuple[AlignmentScore, ...]:
    """Compares word alignments with reference links.

    Each file may be in one of these formats, which is recognized by its first line that is not empty:

        Moses, Pharaoh   one line per sentence pair: links `i-j` from 0, source position first; `i?j` is a possible link
        GIZA++ (A3)      three lines per sentence pair; the third one contains the links
        NAACL (WPT)      one line per link: sentence, source position and target position from 1, then S (sure, the
                         default) or P (possible), and a confidence, which is ignored

    Args:
        systems: dict from a system's name to the file of its links. Possible links of a system count as links.
        reference: file of the reference links. Links that are not marked as possible are sure.
        possible: file of further links of the reference that are possible. Optional.

    Returns:
        tuple of AlignmentScore, in the order of the systems.

    Raises:
        InputError: if a link cannot be parsed, if the files have different numbers of sentences, or if a system has no
            links and the reference has no sure links.
    """
    expected = _read(reference)
    files = {name: _read(path) for name, path in systems.items()}
    further = _LinksFile(reference, {}, None) if possible is None else _read(possible)
    sentences = _number_of_sentences([expected, *files.values(), further])
    scores = []
    for name, file in files.items():
        totals = [0] * 5
        # Only sentences with links: in a damaged file, the number of the last one may be 999,999,999.
        for number in expected.links.keys() | file.links.keys() | further.links.keys():
            sure, links = expected.of(number).sure, file.of(number).possible
            allowed = expected.of(number).possible | further.of(number).possible
            row = len(links), len(sure), len(allowed), len(links & sure), len(links & allowed)
            totals = [total + count for total, count in zip(totals, row, strict=True)]
        score = AlignmentScore(name, totals[0], totals[1], totals[2], totals[3], totals[4], sentences)
        if not score.links + score.sure:
            found = "found no links, and no sure ones in the reference"
            raise InputError(found, "expected links to compare", "check the file", systems[name])
        scores.append(score)
    return tuple(scores)


def alignment_table(scores: Sequence[AlignmentScore]) -> str:
    """Formats scores as a table with a row for each system."""
    head = ("system", "links", "precision", "recall", "AER")
    rows = [head, *((s.system, f"{s.links:,}", *map(_rate, (s.precision, s.recall, s.error_rate))) for s in scores)]
    first = scores[0]
    sentences, links = counted(first.sentences, "sentence pairs"), counted(first.sure, "sure links")
    title = f"{sentences}, {links}, {first.possible:,} possible"
    return f"{title}\n{text_table(rows)}"


def _rate(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


@dataclasses.dataclass(frozen=True)
class _LinksFile:
    """The links of a file by sentence, from 0; `sentences` is `None` if the file lists links only."""

    path: FilePath
    links: Mapping[int, SentenceLinks]
    sentences: int | None

    def of(self, number: int) -> SentenceLinks:
        return self.links.get(number, SentenceLinks(set(), set()))


def _number_of_sentences(files: Sequence[_LinksFile]) -> int:
    counted_files = [file for file in files if file.sentences is not None]
    for file in counted_files[1:]:
        if file.sentences != counted_files[0].sentences:
            pairs = counted(file.sentences or 0, "sentence pairs")
            raise InputError(
                f"found {pairs}, and {counted_files[0].sentences:,} in {counted_files[0].path}",
                "expected the same number",
                "align the same sentence pairs",
                file.path,
            )
    last, listed = max(((max(file.links, default=-1) + 1, file) for file in files), key=lambda pair: pair[0])
    if not counted_files:
        return last
    sentences = counted_files[0].sentences or 0
    if last > sentences:
        found = f"found a link of sentence {last:,}"
        expected = f"expected at most {counted(sentences, 'sentences')}, as in {counted_files[0].path}"
        raise InputError(found, expected, "number the sentences from 1, in the order of the other file", listed.path)
    return sentences


def _read(path: FilePath) -> _LinksFile:
    with InputLines(path) as lines:
        numbered = [(lines.line_number, without_mark(line, lines.line_number).strip(FIELD_SPACE)) for line in lines]
    first = next((line for _, line in numbered if line), b"")
    if first.startswith(b"# Sentence pair"):
        return _read_giza(path, iter(numbered))
    return _read_naacl(path, numbered) if _NAACL.fullmatch(first) else _read_moses(path, numbered)


def _read_moses(path: FilePath, lines: Iterable[tuple[int, bytes]]) -> _LinksFile:
    by_sentence: dict[int, SentenceLinks] = {}
    for number, line in lines:
        links = by_sentence[len(by_sentence)] = SentenceLinks(set(), set())
        for text in split_tokens(line):
            match = _MOSES.fullmatch(text)
            if match is None:
                expected = "expected a source and a target position, from 0, such as 2-1, or 2?1 for a possible link"
                raise InputError(f"found the link {quoted(text)}", expected, "", path, number)
            link = int(match[1]), int(match[3])
            links.possible.add(link)
            if match[2] == b"-":
                links.sure.add(link)
    return _LinksFile(path, by_sentence, len(by_sentence))


def _read_naacl(path: FilePath, lines: Iterable[tuple[int, bytes]]) -> _LinksFile:
    by_sentence: dict[int, SentenceLinks] = {}
    for number, line in lines:
        if not line:
            continue
        match = _NAACL.fullmatch(line)
        numbers = [int(match[group]) for group in (1, 2, 3)] if match else []
        if match is None or 0 in numbers:
            expected = "expected a sentence, a source and a target position from 1, then S or P, such as 12 3 4 S"
            remedy = _WITHOUT_NULL if numbers and numbers[0] else ""
            raise InputError(f"found {quoted(line)}", expected, remedy, path, number)
        sentence, source, target = (each - 1 for each in numbers)
        links = by_sentence.setdefault(sentence, SentenceLinks(set(), set()))
        links.possible.add((source, target))
        if match[4] != b"P":
            links.sure.add((source, target))
    return _LinksFile(path, by_sentence, None)


def _read_giza(path: FilePath, lines: Iterator[tuple[int, bytes]]) -> _LinksFile:
    by_sentence: dict[int, SentenceLinks] = {}
    line_of_pair: dict[int, int] = {}
    for number, line in lines:
        if not line:
            continue
        next(lines, None)  # the target
        last, words = next(lines, (number, b""))
        head = _GIZA_HEAD.fullmatch(line)
        links = _giza_links(words, int(head[2]), int(head[3])) if head else None
        if head is None or links is None:
            raise InputError(
                f"found {quoted(words if head else line)}",
                "expected three lines per sentence pair as GIZA++ writes them: # Sentence pair (1) source length 2 "
                "target length 3, the target, and NULL ({ }) and each source word with the positions of its target "
                "words",
                "",
                path,
                last if head else number,
            )
        pair = int(head[1])
        if pair in by_sentence:
            raise InputError(
                f"found sentence pair {pair} again, as on line {line_of_pair[pair]}",
                "expected each pair once",
                "evaluate joined files separately, each with its pairs numbered from 1",
                path,
                number,
            )
        by_sentence[pair], line_of_pair[pair] = SentenceLinks(links, links), number
    # MGIZA writes parts whose pairs alternate, so a file joined from these parts is not in the order of the pairs.
    pairs = sorted(by_sentence)
    for pair, following in itertools.pairwise(pairs):
        if following != pair + 1:
            found = f"found no sentence pair {pair + 1}, but pairs {pairs[0]} and {pairs[-1]}"
            expected = "expected all pairs between the first and the last"
            raise InputError(found, expected, "join all parts of the file", path)
    return _LinksFile(path, {index: by_sentence[pair] for index, pair in enumerate(pairs)}, len(by_sentence))


def _giza_links(line: bytes, source_length: int, target_length: int) -> set[Link] | None:
    """Reads the links of a sentence pair; returns `None` if the line does not fit the lengths."""
    words = _GIZA_WORD.findall(line)
    if len(words) != source_length + 1 or words[0][0] != b"NULL":
        return None
    links = {
        (source, int(target) - 1) for source, (_, targets) in enumerate(words[1:]) for target in split_tokens(targets)
    }
    return links if all(0 <= target < target_length for _, target in links) else None
