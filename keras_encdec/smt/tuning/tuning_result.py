"""The result of tuning: the weights of each seed, their scores, and a table of them."""

import dataclasses
from collections.abc import Sequence

import numpy as np

# Lower scores, 0 to 100, are shown as 0.00.
_SHOWN = 0.005


@dataclasses.dataclass(frozen=True)
class TunedWeights:
    """The weights that the search with one seed found.

    Attributes:
        seed: int.
        weights: dict from feature to list of float. The absolute values of all weights add up to 1.
        score: float. The score, 0 to 100, of the hypotheses that have the highest totals with these weights.
        test_score: float. The score on the held-out lists; `None` without them.
        seconds: float. Duration of the search.
        discarded_score: float. The score of the weights that the search found, if it is lower than that of the initial
            weights, which were then kept; else `None`.
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
        kept = "" if discarded is None else f", initial weights kept because the search found {discarded:.2f}"
        return f"seed {self.seed}: {self.score:.2f}{test}, {self.seconds:.1f} s{kept}"


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The result of `tune`.

    Attributes:
        algorithm: str.
        metric: str. Sacrebleu's name of the metric, such as "BLEU".
        signature: str. Sacrebleu's signature, which names all settings of the score.
        sentences, hypotheses: int. Number of sentences, and of distinct hypotheses, in the lists.
        missing: int. Number of sentences without hypotheses, which count as empty translations.
        initial_score: float. The score of the initial weights on the lists.
        initial_test_score: float. The score of the initial weights on the held-out lists; `None` without them.
        tuned: tuple of TunedWeights, one for each seed.
        is_distinguished: bool. Whether a feature differs between hypotheses of a sentence. Defaults to `True`.
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
    is_distinguished: bool = True

    @property
    def notices(self) -> list[str]:
        """Warnings for the user, as sentences."""
        notices: list[str] = []
        worse = [tuned for tuned in self.tuned if tuned.discarded_score is not None]
        if worse:
            kept, lost = worse[0].score, [tuned.discarded_score for tuned in worse]
            # Scores that differ by less than 0.01 are shown with enough digits to tell them apart.
            digits = next((n for n in range(2, 16) if all(f"{kept:.{n}f}" != f"{score:.{n}f}" for score in lost)), 16)
            discarded = ", ".join(f"{score:.{digits}f}" for score in lost)
            count = "The search" if len(self.tuned) == 1 else f"{len(worse)} of {len(self.tuned)} searches"
            notices.append(
                f"{count} found weights with a lower score on the lists than the initial weights ({self.metric} "
                f"{discarded} instead of {kept:.{digits}f}); the initial weights were kept."
            )
        if max(self.best.score, self.initial_score) < _SHOWN:
            notices.append(
                f"All weights that were tried have {self.metric} 0.00 on the lists, so the tuned ones mean nothing; "
                "check that the references are those of the sentences in the lists, tokenized like the hypotheses."
            )
        elif not worse and self.best.score < self.initial_score:
            notices.append(
                f"The lists in their own order have a better score ({self.metric} {self.initial_score:.2f}) than the "
                f"weights that the search found ({self.best.score:.2f}); begin with the weights that made the lists."
            )
        if self.hypotheses == self.sentences:
            notices.append("Every sentence has only one hypothesis, so all weights give the same result.")
        elif not self.is_distinguished:
            notices.append("No feature distinguishes hypotheses of a sentence, so all weights give the same result.")
        return notices

    @property
    def best(self) -> TunedWeights:
        """The weights with the best score on the lists that were tuned on."""
        return max(self.tuned, key=lambda tuned: tuned.score)

    def to_dict(self) -> dict[str, object]:
        """Returns the result as values that JSON can represent."""
        scores, tests = self._columns()
        summary = {"mean": _mean(scores), "deviation": _deviation(scores), "best_seed": self.best.seed}
        return {**dataclasses.asdict(self), **summary, "test_mean": _mean(tests), "test_deviation": _deviation(tests)}

    def __str__(self) -> str:
        columns = self._columns()
        rows: list[tuple[str, ...]] = [
            ("", self.metric, "test"),
            ("before", _shown(self.initial_score), _shown(self.initial_test_score)),
            *[(f"seed {tuned.seed}", _shown(tuned.score), _shown(tuned.test_score)) for tuned in self.tuned],
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
        """Returns the scores of all seeds on the lists and, if there are any, on the held-out lists."""
        tests = [tuned.test_score for tuned in self.tuned if tuned.test_score is not None]
        return [tuned.score for tuned in self.tuned], tests


def _mean(scores: Sequence[float]) -> float | None:
    return float(np.mean(scores)) if scores else None


def _deviation(scores: Sequence[float]) -> float | None:
    """Returns the standard deviation; `None` for fewer than two scores."""
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else None


def _shown(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}"
