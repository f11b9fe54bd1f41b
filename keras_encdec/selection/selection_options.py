"""What can be chosen when sentence pairs are selected."""

import dataclasses

from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.selection.selection_scores import METHODS
from keras_encdec.task_options import EncodingOption, MalformedLinesOption


@dataclasses.dataclass(frozen=True)
class SelectionOptions(EncodingOption, MalformedLinesOption):
    """Options of `select_pairs`, which needs exactly one of `top`, `share` and `threshold`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
    """

    method: str = hyperparameter(
        "dual",
        "dual: two translation models agree that the sides translate each other. moore_lewis: one side looks like the "
        "domain; bilingual: both sides do.",
        choices=tuple(METHODS),
    )
    top: int | None = hyperparameter(None, "How many pairs to select.", minimum=1)
    share: float | None = hyperparameter(
        None,
        "What share of the pairs to select, such as 0.5, without malformed and duplicate ones.",
        above=0,
        maximum=1,
    )
    threshold: float | None = hyperparameter(None, "Select the pairs with this score or a higher one.")
    deduplicate: bool = hyperparameter(False, "Of pairs with the same text only the first may be selected.")
    max_tokens: int | None = hyperparameter(1000, "A pair with more words on a side is never selected.", minimum=1)
    end_weight: float = hyperparameter(
        1.0,
        "dual: number of tokens that the end of a sentence counts as. 1 is the published score; 4 also detects most "
        "truncated sentences.",
        above=0,
        maximum=1000,
    )

    def check(self) -> None:
        if len(self.amounts) > 1:
            given = " and ".join(f"{{{name}}}" for name in self.amounts)
            raise ConfigurationError(f"found {given}, expected one of {{top}}, {{share}} and {{threshold}}")
        if self.end_weight != 1 and self.method != "dual":
            raise ConfigurationError("found {end_weight} with {method}=%s, expected it with dual", self.method)

    @property
    def amounts(self) -> list[str]:
        """The names of those of `top`, `share` and `threshold` that are given."""
        return [name for name in ("top", "share", "threshold") if getattr(self, name) is not None]
