"""What tuning found: weights of each seed, and their scores."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class TunedWeights:
    """The weights that were found with one seed.

    Attributes:
        seed: int.
        weights: dict of str to list of float: of each feature, its absolute values adding up to 1 with all others'.
        score: float. The metric's score of the best hypotheses of the lists, 0 to 100.
        test_score: float. That of the lists that are held out; `None` without them.
        seconds: float. What the search took.
        discarded_score: float. The score of the weights that the search ended with, where those that it began with
            have a better one: these are kept. `None` where the search found better ones, or as good ones.
    """

    seed: int
    weights: dict[str, list[float]]
    score: float
    test_score: float | None
    seconds: float
    discarded_score: float | None = None

    def __str__(self) -> str:
        test = "" if self.test_score is None else f", test {self.test_score:.2f}"
        discarded = self.discarded_score
        kept = "" if discarded is None else f", the initial weights, as the search found {discarded:.2f}"
        return f"seed {self.seed}: {self.score:.2f}{test}, {self.seconds:.1f} s{kept}"


@dataclasses.dataclass(frozen=True)
class Tuning:
    """What `tune` did.

    Attributes:
        algorithm: str.
        metric: str. What sacrebleu calls it, such as "BLEU".
        signature: str. Sacrebleu's.
        sentences, hypotheses: int. In the lists, different ones.
        missing: int. Sentences without hypotheses, which count as empty translations.
        initial_score: float. Of the weights that it began with.
        initial_test_score: float. `None` without a test list.
        tuned: tuple of TunedWeights, one for each seed.
    """

    algorithm: str
    metric: str
    signature: str
    sentences: int
    hypotheses: int
    missing: int
    initial_score: float
    initial_test_score: float | None
    tuned: tuple[TunedWeights, ...]

    @property
    def remarks(self) -> list[str]:
        """What the user is to know of the weights: sentences."""
        said, worse = [], [one for one in self.tuned if one.discarded_score is not None]
        if worse:
            ended = ", ".join(f"{one.discarded_score:.2f}" for one in worse)
            count = "The search" if len(self.tuned) == 1 else f"{len(worse)} of {len(self.tuned)} searches"
            said.append(
                f"{count} found weights that are worse on the lists than the initial ones ({self.metric} {ended} "
                f"instead of {worse[0].score:.2f}); the initial weights were kept."
            )
        if not worse and self.best.score < self.initial_score:
            said.append(
                f"The lists in their own order have a better score ({self.metric} {self.initial_score:.2f}) than the "
                f"weights that were found ({self.best.score:.2f}); give --weights to begin with."
            )
        return said

    @property
    def best(self) -> TunedWeights:
        """That with the best score on the lists; the test lists have no say."""
        return max(self.tuned, key=lambda one: one.score)

    def to_dict(self) -> dict[str, Any]:
        """The tuning for JSON."""
        scores, tests = self._columns()
        summary = {"mean": _mean(scores), "deviation": _deviation(scores), "best_seed": self.best.seed}
        return {
            **dataclasses.asdict(self), **summary, "test_mean": _mean(tests), "test_deviation": _deviation(tests)
        }  # fmt: skip

    def __str__(self) -> str:
        columns = self._columns()
        rows = [
            ("", self.metric, "test"),
            ("before", _shown(self.initial_score), _shown(self.initial_test_score)),
            *[(f"seed {one.seed}", _shown(one.score), _shown(one.test_score)) for one in self.tuned],
        ]
        last = []
        if len(self.tuned) > 1:
            rows += [("mean", *map(_shown, map(_mean, columns))), ("deviation", *map(_shown, map(_deviation, columns)))]
            last = [f"best: seed {self.best.seed}"]
        if self.initial_test_score is None:
            rows = [row[:2] for row in rows]
        lines = ["".join([row[0].ljust(10), *(cell.rjust(8) for cell in row[1:])]).rstrip() for row in rows]
        return "\n".join([f"{self.metric}|{self.signature}", *lines, *last])

    def _columns(self) -> tuple[list[float], list[float]]:
        tests = [] if self.initial_test_score is None else [one.test_score for one in self.tuned]
        return [one.score for one in self.tuned], tests


def _mean(scores: Sequence[float]) -> float | None:
    return float(np.mean(scores)) if scores else None


def _deviation(scores: Sequence[float]) -> float | None:
    """The standard deviation; there is none of one score."""
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else None


def _shown(score):
    return "" if score is None else f"{score:.2f}"
