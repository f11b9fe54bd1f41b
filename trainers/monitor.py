"""What decides which round of a training is the best."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

HELD_OUT = "val_perplexity"


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
        """The best of the rounds; of equals that with the lowest held-out perplexity, or the first; `None` of none.

        Example:

        >>> Monitor("val_bleu", higher_is_better=True).best([{"val_bleu": 30.1}, {"val_bleu": 31.5}])
        {'val_bleu': 31.5}
        >>> HELD_OUT_BLEU.best([{"val_bleu": 0.0, HELD_OUT: 9.1}, {"val_bleu": 0.0, HELD_OUT: 8.4}])
        {'val_bleu': 0.0, 'val_perplexity': 8.4}
        """
        sign = -1 if self.higher_is_better else 1
        return min(rounds, key=lambda one: (sign * one[self.name], one.get(HELD_OUT, math.inf)), default=None)


PERPLEXITY, HELD_OUT_PERPLEXITY = Monitor("perplexity"), Monitor(HELD_OUT)
HELD_OUT_BLEU = Monitor("val_bleu", higher_is_better=True)
