"""One line of a Moses phrase table: taken apart, and written again with more scores."""

import math
from collections.abc import Sequence

from keras_encdec.errors import quoted
from keras_encdec.formats.malformed_line import MalformedLine
from keras_encdec.formats.numbers import finite_number
from keras_encdec.formats.tokens import AROUND, split_tokens

_UNDERSCORE = ord("_")


class PhraseTableLine:
    """One line of a phrase table, `source ||| target ||| scores [||| further fields]`.

    Made by `parse_line`.

    Attributes:
        raw: bytes. The line as it stands.
        source: bytes. The source phrase, without the spaces around it.
        target: bytes. The target phrase, without the spaces around it.
        scores: list of bytes, one a score.
    """

    __slots__ = ("raw", "source", "target", "scores", "_end_of_scores")

    def __init__(self, raw: bytes, source: bytes, target: bytes, scores: list[bytes], end_of_scores: int) -> None:
        self.raw, self.source, self.target, self.scores = raw, source, target, scores
        self._end_of_scores = end_of_scores

    def append_scores(self, extra: Sequence[bytes | str]) -> bytes:
        """Writes the line with more scores, which come after its own; no other byte changes.

        Args:
            extra: list of bytes or str.

        Returns:
            bytes. The line, without a line feed.
        """
        if not extra:
            return self.raw
        try:
            added = " ".join(extra).encode()
        except TypeError:
            added = b" ".join(score.encode() if isinstance(score, str) else score for score in extra)
        line, end = self.raw, self._end_of_scores
        return b"%b %b%b" % (line[:end], added, line[end:])


def parse_line(line: bytes) -> PhraseTableLine:
    """Takes a line of a phrase table apart.

    Args:
        line: bytes, without its line feed; a carriage return may end it.

    Returns:
        PhraseTableLine.

    Raises:
        MalformedLine: a ValueError with `found` and `expected`, when there are fewer than three fields,
            no scores, or one is not a finite number.

    Example:

    >>> parse_line(b"le ||| the ||| 0.5 0.25 ||| 0-0").append_scores(["0.125"])
    b'le ||| the ||| 0.5 0.25 0.125 ||| 0-0'
    """
    fields = line.split(b"|||", 3)
    if len(fields) < 3:
        plural = "s" if len(fields) > 1 else ""
        found = f"found {len(fields)} field{plural}" if line.strip() else "found a blank line"
        raise MalformedLine(found, 'expected at least 3 fields separated by "|||"')
    field = fields[2]
    scores = field.split()
    try:
        total = sum(map(float, scores))
    except ValueError:
        total = math.nan
    # Whether each score is a `finite_number`, in a third of the time: the difference is not 0 when one is inf or nan,
    # and Python also reads 1_0 and splits at vertical tabs and form feeds.
    if total - total != 0 or not scores or _UNDERSCORE in field or b"\v" in field or b"\f" in field:
        _check_scores(split_tokens(field.strip(AROUND)))
    source, target = fields[0], fields[1]
    end = len(source) + len(target) + len(field.rstrip()) + 6
    return PhraseTableLine(line, source.strip(AROUND), target.strip(AROUND), scores, end)


def _check_scores(scores):
    if not scores:
        raise MalformedLine("found no scores", "expected at least one score in the third field")
    for score in scores:
        try:
            finite_number(score)
        except ValueError:
            raise MalformedLine(f"found the score {quoted(score)}", "expected a finite number") from None
