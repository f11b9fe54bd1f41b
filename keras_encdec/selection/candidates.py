"""Which pairs of a corpus are scored."""

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence

from keras_encdec.formats import Record, model_words
from keras_encdec.scoring.scored_file import windows

WINDOW = 4096


@dataclasses.dataclass(frozen=True)
class Window:
    """Consecutive records, and the indices of those that are scored."""

    records: Sequence[Record]
    scored: Sequence[int]


class Candidates:
    """Which records are scored, in their order; counts those that are not.

    Args:
        max_tokens: int. A pair with a longer side has no score; `None` is any number.
        deduplicate: bool. Whether of pairs with the same text only the first is scored.

    Attributes:
        duplicates: int. Pairs so far that are the same as one before.
        without_score: int. Pairs so far with an empty side or one of more than `max_tokens` tokens.
    """

    def __init__(self, max_tokens: int | None, deduplicate: bool) -> None:
        self._max_tokens = math.inf if max_tokens is None else max_tokens
        self._seen: set[bytes] | None = set() if deduplicate else None
        self.duplicates = self.without_score = 0

    def windows(self, records: Iterable[Record]) -> Iterator[Window]:
        """The records in windows of 4,096; the last one may have fewer."""
        for window in windows(records, WINDOW):
            yield Window(window, [i for i, record in enumerate(window) if self._is_scored(record)])

    def _is_scored(self, record):
        if record.problem is not None:
            return False
        if self._seen is not None:
            text = f"{record.source}\t{record.target}".encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(text, digest_size=16).digest()
            if digest in self._seen:
                self.duplicates += 1
                return False
            self._seen.add(digest)
        lengths = [len(model_words(side, factored=False)) for side in (record.source, record.target)]
        has_score = min(lengths) > 0 and max(lengths) <= self._max_tokens
        self.without_score += not has_score
        return has_score
