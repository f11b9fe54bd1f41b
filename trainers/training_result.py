"""What a training reached."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, Self


@dataclasses.dataclass(frozen=True)
class TrainingRound:
    """A round of a training: what the model had learned when it was validated and kept.

    Attributes:
        updates: int. Updates so far.
        pairs: int. Pairs learned from so far, each as often as it was seen.
        seconds: float. Seconds of training so far.
        learning_rate: float. Step size of the last update.
        perplexity: float. Per target token, on the pairs of the round; `None` of an average of rounds.
        log_likelihood: float. Nats a pair, of the same pairs; `None` of an average of rounds.
        val_perplexity: float. Of the pairs to validate on; `None` without such pairs.
        val_log_likelihood: float. Of the pairs to validate on; `None` without such pairs.
        val_bleu: float. BLEU of greedy translations of the pairs to validate on, 0 to 100; `None` where it was not
            asked for.
        gradient_norm: float. Mean norm of the gradient over the updates of the round, before it was clipped to a norm;
            `None` of an average of rounds.
        clipped_share: float. Share of the round's updates whose gradient was clipped to a norm, 0 to 1; `None` where
            norms are not clipped.
        averaged_rounds: int. Rounds whose weights were averaged; `None` of a round itself.
    """

    updates: int
    pairs: int
    seconds: float
    learning_rate: float
    perplexity: float | None = None
    log_likelihood: float | None = None
    val_perplexity: float | None = None
    val_log_likelihood: float | None = None
    val_bleu: float | None = None
    gradient_norm: float | None = None
    clipped_share: float | None = None
    averaged_rounds: int | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A round as `history.json` has it; what else stands there is left out."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What a training reached.

    Attributes:
        model_dir: pathlib.Path. Where the model is.
        rounds: tuple of TrainingRound, those before a resumption included.
        best: TrainingRound. The round whose model was kept as the best.
        seconds: float. Seconds of training, those before a resumption included.
        signal: int. The signal that stopped the training; `None` where it came to its end.
        compiled_shapes: int. Shapes of batches that a step was compiled for, one by one; 0 where the backend
            does that itself.
        compile_seconds: float. Seconds that took.
    """

    model_dir: pathlib.Path
    rounds: tuple[TrainingRound, ...]
    best: TrainingRound
    seconds: float
    signal: int | None = None
    compiled_shapes: int = 0
    compile_seconds: float = 0.0

    @property
    def last(self) -> TrainingRound:
        """The last round."""
        return self.rounds[-1]
