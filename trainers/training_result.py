"""The result of a training, and the measurements of its rounds."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, Self


@dataclasses.dataclass(frozen=True)
class TrainingRound:
    """The measurements at the end of a round, when the model was validated and saved.

    Attributes:
        updates: int. Number of updates so far.
        pairs: int. Number of pairs in these updates; a pair counts each time it is used.
        seconds: float. Time of training so far, in seconds.
        learning_rate: float. Learning rate of the last update.
        perplexity: float. Perplexity per target token of the pairs that the round trained on; `None` for an average
            of rounds.
        log_likelihood: float. ln p per pair in nats, of the same pairs; `None` for an average of rounds.
        val_perplexity: float. Perplexity per target token of the validation pairs; `None` without such pairs.
        val_log_likelihood: float. ln p per pair in nats, of the validation pairs; `None` without such pairs.
        val_bleu: float. BLEU of greedy translations of the validation pairs, 0 to 100; `None` if it is not measured.
        gradient_norm: float. Mean norm of the gradient over the updates of the round, before it was clipped to a norm;
            `None` for an average of rounds.
        clipped_share: float. Share of the round's updates whose gradient was clipped to a norm, 0 to 1; `None` if
            norms are not clipped.
        averaged_rounds: int. Number of rounds whose weights were averaged; `None` for a round of training.
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
        """Makes a round from its entry in `history.json`; unknown names are ignored."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    Attributes:
        model_dir: pathlib.Path. The model directory.
        rounds: tuple of TrainingRound, the complete rounds, including those before a resumption.
        best: TrainingRound. The round whose model was saved as the best; `None` if a signal stopped the first round.
        updates: int. Number of updates, including those of a round that a signal stopped.
        seconds: float. Time of training in seconds, including that before a resumption, and without that of compiling.
        signal: int. Number of the signal that stopped the training; `None` if no signal did.
        compiled_shapes: int. Number of batch shapes for which a training step was compiled; 0 if the backend compiles
            on its own.
        compile_seconds: float. Time of this compilation in seconds.
    """

    model_dir: pathlib.Path
    rounds: tuple[TrainingRound, ...]
    best: TrainingRound | None
    updates: int
    seconds: float
    signal: int | None = None
    compiled_shapes: int = 0
    compile_seconds: float = 0.0

    @property
    def last(self) -> TrainingRound:
        """The last complete round."""
        return self.rounds[-1]
