"""The hypotheses of an n-best list, sentence by sentence."""

import dataclasses
from collections.abc import Iterator

from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, InputLines, NBestLine, model_words, parse_nbest_line
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.formats.malformed_line import MalformedLine


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A line of an n-best list.

    Attributes:
        line_number: int, from 1.
        raw: bytes. The line as it stands, without its line feed.
        parsed: NBestLine.
    """

    line_number: int
    raw: bytes
    parsed: NBestLine

    def words(self, encoding: FileEncoding, path: FilePath) -> list[str]:
        """The words of the hypothesis, without factors and Moses's escapes.

        Args:
            encoding: FileEncoding of the list.
            path: the list, named in errors.

        Raises:
            InputError: when the encoding does not have its bytes.
        """
        return model_words(encoding.decode_line(self.parsed.hypothesis, path, self.line_number))


@dataclasses.dataclass(frozen=True)
class SentenceHypotheses:
    """The hypotheses of one sentence.

    Attributes:
        hypotheses: list of Hypothesis, in the order of the list, at least one.
        previous_id: int. Id of the sentence before in the list; -1 of the first.
    """

    hypotheses: list[Hypothesis]
    previous_id: int

    @property
    def id(self) -> int:
        """The number of the source sentence."""
        return self.hypotheses[0].parsed.id

    @property
    def missing(self) -> int:
        """How many ids between the sentence before and this one have no hypotheses."""
        return self.id - self.previous_id - 1


def hypotheses_by_sentence(lines: InputLines) -> Iterator[SentenceHypotheses]:
    """Yields the sentences of an n-best list; memory is that of one.

    Args:
        lines: InputLines of the list.

    Yields:
        SentenceHypotheses.

    Raises:
        InputError: at a malformed line, and where ids do not ascend.
    """
    hypotheses: list[Hypothesis] = []
    previous = -1
    for raw in lines:
        number = lines.line_number
        try:
            parsed = parse_nbest_line(raw)
        except MalformedLine as error:
            raise InputError(error.found, error.expected, "repair or remove the line", lines.path, number) from None
        last = hypotheses[-1].parsed.id if hypotheses else parsed.id
        if parsed.id < last:
            raise InputError(
                f"found the id {parsed.id} after {last}",
                "expected the hypotheses of each sentence together, and ids in ascending order",
                "sort the list by id (sort -s -n)", lines.path, number,
            )  # fmt: skip
        if parsed.id > last:
            yield SentenceHypotheses(hypotheses, previous)
            hypotheses, previous = [], last
        hypotheses.append(Hypothesis(number, raw, parsed))
    yield SentenceHypotheses(hypotheses, previous)
