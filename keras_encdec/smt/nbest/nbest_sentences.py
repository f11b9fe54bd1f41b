"""Reads the hypotheses of an n-best list sentence by sentence."""

import dataclasses
from collections.abc import Iterator

from keras_encdec.formats import (
    FilePath,
    InputLines,
    NBestLine,
    append_features,
    model_words,
    parse_features,
    parse_nbest_line,
)
from keras_encdec.formats.encodings import FileEncoding, without_mark
from keras_encdec.formats.feature_weights import WORD_PENALTY
from keras_encdec.formats.fields import split_tokens
from keras_encdec.formats.nbest_line import check_new_features
from keras_encdec.formats.record_reader import MalformedLine


@dataclasses.dataclass(frozen=True)
class NBestHypothesis:
    """A line of an n-best list.

    Attributes:
        line_number: int, from 1.
        raw: bytes. The unchanged line, without its line feed, and without the file's byte-order mark.
        parsed: NBestLine.
    """

    line_number: int
    raw: bytes
    parsed: NBestLine

    def words(self, encoding: FileEncoding, path: FilePath) -> list[str]:
        """Returns the words of the hypothesis, without factors and Moses's escapes; errors name the path of the list.

        Raises:
            InputError: if its bytes are invalid in the encoding.
        """
        return model_words(encoding.decode_line(self.parsed.hypothesis, path, self.line_number))


@dataclasses.dataclass(frozen=True)
class SentenceHypotheses:
    """The hypotheses of one sentence.

    Attributes:
        hypotheses: list of NBestHypothesis, in the order of the list, at least one.
        previous_id: int. Id of the preceding sentence in the list; -1 before the first sentence.
        mark: bytes. The byte-order mark of the list, if this is its first sentence; else empty.
    """

    hypotheses: list[NBestHypothesis]
    previous_id: int
    mark: bytes = b""

    @property
    def id(self) -> int:
        """The number of the source sentence."""
        return self.hypotheses[0].parsed.id

    @property
    def missing(self) -> int:
        """The number of ids without hypotheses between the preceding sentence and this one."""
        return self.id - self.previous_id - 1


def hypotheses_by_sentence(lines: InputLines) -> Iterator[SentenceHypotheses]:
    """Yields the sentences of an n-best list, one at a time.

    Raises:
        InputError: for a malformed line, and for ids that do not ascend.
    """
    hypotheses: list[NBestHypothesis] = []
    previous, mark = -1, b""
    for line in lines:
        number = lines.line_number
        raw = without_mark(line, number)  # the line may be written elsewhere in a file
        mark = mark or line[: len(line) - len(raw)]
        try:
            parsed = parse_nbest_line(raw)
        except MalformedLine as error:
            raise lines.error(error.found, error.expected, error.remedy(number)) from None
        last = hypotheses[-1].parsed.id if hypotheses else parsed.id
        if parsed.id < last:
            raise lines.error(
                f"found the id {parsed.id} after {last}",
                "expected the hypotheses of each sentence together, and ids in ascending order",
                "sort the list by id (sort -s -n)",
            )
        if parsed.id > last:
            yield SentenceHypotheses(hypotheses, previous, mark if previous < 0 else b"")
            hypotheses, previous = [], last
        hypotheses.append(NBestHypothesis(number, raw, parsed))
    yield SentenceHypotheses(hypotheses, previous, mark if previous < 0 else b"")


def with_word_penalty(hypothesis: NBestHypothesis, path: FilePath | None = None) -> NBestHypothesis:
    """Returns a hypothesis with the feature `WordPenalty0`, minus the number of words, added to its line.

    Raises:
        InputError: if the hypothesis has the feature already.
    """
    parsed, remedy = hypothesis.parsed, "leave out --word_penalty"
    check_new_features(parse_features(parsed.features), [WORD_PENALTY], path, hypothesis.line_number, remedy)
    raw = append_features(hypothesis.raw, [(WORD_PENALTY, f"{0.0 - len(split_tokens(parsed.hypothesis)):g}")])
    return dataclasses.replace(hypothesis, raw=raw, parsed=parse_nbest_line(raw))
