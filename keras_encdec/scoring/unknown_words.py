"""How many of the words of a scored file a model does not know."""

import dataclasses

# A share above which the model is hardly one for the text. The shortlist of a training covers some nine tenths of its
# language's text and more; of another language little but the numbers, signs and names is known.
HIGH = 0.5


@dataclasses.dataclass(frozen=True)
class UnknownWords:
    """The words of one side of a file that are not in a model's shortlist.

    Attributes:
        model: str. What the model is to be called, such as "reverse model".
        side: str. "source" or "target", the user's.
        words: int. Words of the side.
        unknown: int. Those among them that the model does not know.

    Example:

    >>> print(UnknownWords("model", "source", words=2000, unknown=1500))
    source: 75.00 % of the 2,000 words are unknown to the model
    """

    model: str
    side: str
    words: int
    unknown: int

    @property
    def share(self) -> float:
        """Of the words, from 0 to 1."""
        return self.unknown / max(self.words, 1)

    @property
    def is_high(self) -> bool:
        """Whether most are unknown, as those of another language or of another tokenization are."""
        return self.share > HIGH

    def __str__(self) -> str:
        return f"{self.side}: {100 * self.share:.2f} % of the {self.words:,} words are unknown to the {self.model}"
