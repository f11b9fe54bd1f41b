"""The phrases that occur in sentences."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence


class OccurringPhrases:
    """The phrases that occur in sentences. It stores the suffixes of the sentences, not a copy of each phrase.

    With `longest`, it is the maximum number of words in a phrase.

    Example:

    >>> phrases = OccurringPhrases([["the", "big", "house"]], longest=2)
    >>> "big house" in phrases, "the big house" in phrases, "big hou" in phrases
    (True, False, False)
    """

    def __init__(self, sentences: Iterable[Sequence[str]], longest: int | None = None) -> None:
        # A phrase occurs if a suffix of a sentence begins with it and a space. Without the space, the phrase could end
        # inside a word.
        self._suffixes = sorted(
            {
                " ".join([*words[start : start + longest if longest else None], ""])
                for words in sentences
                for start in range(len(words))
            }
        )

    def __contains__(self, phrase: str) -> bool:
        index = bisect_left(self._suffixes, f"{phrase} ")
        return index < len(self._suffixes) and self._suffixes[index].startswith(f"{phrase} ")
