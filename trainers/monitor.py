"""What decides which round of a training is the best."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Monitor:
    """A measured value, by which rounds are compared.

    Attributes:
        name: str. As `history.json` calls it.
        higher_is_better: bool. Defaults to `False`.
    """

    name: str
    higher_is_better: bool = False

    def best(self, rounds: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The best of the rounds, the first of equals; `None` of none.

        Example:

        >>> Monitor("val_bleu", higher_is_better=True).best([{"val_bleu": 30.1}, {"val_bleu": 31.5}])
        {'val_bleu': 31.5}
        """
        best = max if self.higher_is_better else min
        return best(rounds, key=lambda training_round: training_round[self.name], default=None)


PERPLEXITY, HELD_OUT_PERPLEXITY = Monitor("perplexity"), Monitor("val_perplexity")
HELD_OUT_BLEU = Monitor("val_bleu", higher_is_better=True)
