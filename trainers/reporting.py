"""What a training run reports: its rounds, its result, and its progress as lines or as Keras's progress bar."""

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

import keras

from keras_encdec.errors import FilePath, shown_path
from keras_encdec.runtime.progress import counted
from keras_encdec.runtime.settings_files import Json
from keras_encdec.trainers.budget import Budget


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
        pruned_share: float. Share of the weights that is pruned, 0 to 1, without biases; `None` for a model
            that is not pruned.
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
    pruned_share: float | None = None
    averaged_rounds: int | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> Self:
        """Makes a round from its entry in `history.json`; unknown names are ignored."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """The result of a training run.

    Attributes:
        model_dir: pathlib.Path of the model directory; for a remote directory its URL, a str.
        rounds: tuple of TrainingRound, the complete rounds, including those before a resumption.
        best: TrainingRound. The round whose model was saved as the best; `None` if a signal stopped the first round.
        updates: int. Number of updates, including those of a round that a signal stopped.
        seconds: float. Time of training in seconds, including that before a resumption, and without that of compiling.
        signal: int. Number of the signal that stopped the training; `None` if no signal did.
        compiled_shapes: int. Number of batch shapes for which a training step was compiled, see `Compilation`.
        compile_seconds: float. Time of compiling in seconds, see `Compilation`.
    """

    model_dir: FilePath
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


class TrainingReporter:
    """Reports the progress of a training run: as Keras's progress bar on a terminal, otherwise as a line per round.

    Subclasses may override any method.

    Args:
        say: function that takes each line, such as `logging.info`. Defaults to `print`.
        bar: bool. Whether to show rounds with Keras's bar instead of lines. Defaults to `None`: only if `say` is not
            given and standard output is a terminal.
    """

    def __init__(self, say: Callable[[str], object] | None = None, bar: bool | None = None) -> None:
        self.say = say or functools.partial(print, flush=True)
        self.bar = say is None and sys.stdout.isatty() if bar is None else bar
        self._progress: RoundProgress | None = None

    def prepared(
        self, summary: Mapping[str, int], malformed: int, vocabulary_sizes: Mapping[str, int], max_length: int
    ) -> None:
        """Called after the pairs are prepared.

        Args:
            summary: counts of the preparation, see `PreparedPairs.summary`.
            malformed: number of malformed lines, which were skipped.
            vocabulary_sizes: number of words in the shortlist of each side, "source" and "target"; a language model has
                only "target".
            max_length: maximum length of the pairs that were kept, in words.
        """
        what = "pairs" if "source" in vocabulary_sizes else "targets"
        self.say(
            f"{counted(summary['unique'], f'unique {what}')} of {summary['read']:,}; "
            f"{_left_out(summary, malformed, max_length)}"
        )
        for side, words in vocabulary_sizes.items():
            # Without the end of sequence of each pair, as encdec-score and encdec-generate count.
            share = 100 * summary[f"{side}_unknown"] / (summary[f"{side}_tokens"] - summary["unique"])
            size = counted(words, "words")
            self.say(f"{side}: {size} in the shortlist; {share:.2f} % of the words in the text are outside it.")
        if complete := [side for side in vocabulary_sizes if not summary[f"{side}_unknown"]]:
            self.say(
                f"All words of the {' and the '.join(complete)} are in the shortlist. So the unknown word is never "
                "trained, and pairs with new words will get very low scores; a smaller --shortlist avoids this."
            )

    def validated_on(self, summary: Mapping[str, int], malformed: int, max_length: int) -> None:
        """Called after the pairs of validation files are prepared, whenever a run begins or is resumed.

        Args:
            summary: counts of the preparation, see `PreparedPairs.summary`.
            malformed: number of malformed lines, which were skipped.
            max_length: maximum length of the pairs that were kept, in words.
        """
        if summary["too_long"] or summary["empty"] or malformed:
            counts = f"{summary['unique']:,} unique of {summary['read']:,}"
            self.say(f"To validate on: {counts}; {_left_out(summary, malformed, max_length)}")

    def prepared_before(self, files: Iterable[str], given: Iterable[str]) -> None:
        """Called when the files given to a resumed run differ from the files that its pairs were prepared from.

        Args:
            files: files that the pairs were prepared from.
            given: files that are given now, which are not read.
        """
        names = ", ".join(map(str, given))
        self.say(f"Continuing with the pairs that were prepared from {', '.join(map(str, files))}; not read: {names}.")

    def changed(self, settings: Mapping[str, tuple[object, object]]) -> None:
        """Called when settings of the learning rate differ from those of the run to resume.

        Args:
            settings: dict from the name of a setting to its value before and its value now.
        """
        changes = ", ".join(f"{name} {now} instead of {before}" for name, (before, now) in settings.items())
        self.say(f"Continuing with another learning rate: {changes}.")

    def built(self, weights: int) -> None:
        """Called with the number of weights after a new model is built."""
        self.say(f"{weights:,} weights.")

    def ends_in_warmup(self, updates: int, warmup_updates: int) -> None:
        """Called before a training that ends while the learning rate still rises, and may learn little.

        Args:
            updates: int. Updates of the whole training.
            warmup_updates: int. Updates of the warm-up.
        """
        self.say(
            f"warning: the training ends after {counted(updates, 'updates')}, while the learning rate still rises over "
            f"the first {warmup_updates:,}; give fewer --warmup_updates, or train longer."
        )

    def compiling(self, shapes: Sequence[Sequence[int]]) -> None:
        """Called before the training step is compiled, which may take minutes.

        Args:
            shapes: list of the shapes of the parts of the batches that it is compiled for. If there are two parts, they
                are the source and the target.
        """
        parts = [" x ".join(map(str, shape)) for shape in shapes]
        if len(parts) == 2:
            self._say_below_bar(f"Compiling for batches of {parts[0]} source words and {parts[1]} target words.")
        else:
            self._say_below_bar(f"Compiling for batches of the shape {', '.join(dict.fromkeys(parts))}.")

    def updated(self, updates: int, rate: float, perplexity: float) -> None:
        """Called about every 25 seconds until the first round has ended.

        Args:
            updates: int. Updates so far.
            rate: float. Pairs per second since the last call.
            perplexity: float. Perplexity of the pairs of the round so far.
        """
        if not self.bar:
            self.say(
                f"{counted(updates, 'updates')}, {rate:,.0f} pairs/s, loss {math.log(perplexity):.3f} nats per token "
                f"(perplexity {perplexity:,.3f})."
            )

    def waiting(self, task: str, seconds: float) -> None:
        """Called about every 25 seconds while a single update or validation runs, until the first round has ended.

        Args:
            task: str. What takes so long, such as "Update 3".
            seconds: float. Seconds that it has taken so far.
        """
        self._say_below_bar(f"{task} has taken {seconds:.0f} s so far.")

    def callbacks(self, budget: Budget, updates_per_epoch: int) -> Sequence[keras.callbacks.Callback]:
        """Makes Keras callbacks that show the progress within a round."""
        self._progress = RoundProgress(budget, updates_per_epoch) if self.bar else None
        return [self._progress] if self._progress else []

    def _say_below_bar(self, line: str) -> None:
        """Says a line while the bar may be on the terminal's last line, without a line break."""
        self.say(f"\n{line}" if self._progress and self._progress.is_drawn else line)

    def round_ended(
        self, number: int, training_round: TrainingRound, epochs: float, rate: float, seconds_left: float | None
    ) -> None:
        """Called after a round is trained, validated and saved.

        Args:
            number: int. Number of the round, from 1.
            training_round: TrainingRound.
            epochs: float. Passes over the pairs so far.
            rate: float. Pairs per second in this round, validation included, compiling not.
            seconds_left: float. Estimate of the time to the end; `None` for a run without a known end.
        """
        if self.bar:
            return
        held_out, bleu = training_round.val_perplexity, training_round.val_bleu
        self.say(
            f"Round {number}: {counted(training_round.updates, 'updates')}, {epochs:.2f} epochs, "
            f"{counted(training_round.pairs, 'pairs')}, {rate:,.0f} pairs/s; perplexity {training_round.perplexity:.3f}"
            + (f", held-out {held_out:.3f}" if held_out is not None else "")
            + (f", BLEU {bleu:.2f}" if bleu is not None else "")
            + (f"; {_duration(seconds_left)} left." if seconds_left is not None else ".")
        )

    def ended(self, result: TrainingResult) -> None:
        """Called after the training has ended or a signal has stopped it."""
        self.say(_summary(result))
        if result.compiled_shapes:
            shapes = counted(result.compiled_shapes, "batch shapes")
            self.say(f"Compiling {shapes} took a further {result.compile_seconds:,.0f} s.")
        elif result.compile_seconds >= 1:
            self.say(f"Compiling took a further {result.compile_seconds:,.0f} s.")

    def learned_little(self, remark: str) -> None:
        """Called last, with a remark on a model that is no better than the frequencies of its target words."""
        self.say(f"warning: {remark}")

    def pruned_less(self, share: float, requested: float) -> None:
        """Called after patience has ended the training before its gradual pruning was complete.

        Args:
            share: float. Share of the weights that is pruned, 0 to 1.
            requested: float. Share of the weights that was to be pruned.
        """
        self.say(
            f"warning: {share:.1%} of the weights are pruned instead of {requested:.1%}: patience ended the training "
            "before three quarters of it were done; continue with --resume and a larger --patience."
        )

    def already_ended(self, result: TrainingResult) -> None:
        """Called when the run to resume had already ended."""
        self.say(f"Nothing to train: the training has already ended. {_summary(result)}")


def _left_out(summary: Mapping[str, int], malformed: int, max_length: int) -> str:
    return (
        f"left out: {summary['too_long']:,} longer than {counted(max_length, 'words')}, "
        f"{summary['empty']:,} with an empty side, {malformed:,} malformed."
    )


def _summary(result: TrainingResult) -> str:
    best, folder = result.best, shown_path(result.model_dir)
    if best is None:
        return f"{counted(result.updates, 'updates')} in {result.seconds:,.0f} s. No round is complete: {folder}"
    held_out = best.val_perplexity is not None
    perplexity = best.val_perplexity if held_out else best.perplexity
    log_likelihood = best.val_log_likelihood if held_out else best.log_likelihood
    bleu = "" if best.val_bleu is None else f"BLEU {best.val_bleu:.2f}, "
    after = f"after {counted(best.updates, 'updates')}"
    if best.averaged_rounds is not None:
        after = f"of the average of the last {counted(best.averaged_rounds, 'rounds')}"
    pairs = result.updates * best.pairs // best.updates
    return (
        f"{counted(result.updates, 'updates')}, {counted(pairs, 'pairs')} in {result.seconds:,.0f} s. Best "
        f"{'held-out ' if held_out else ''}{bleu}perplexity {perplexity:.3f} per token, log-likelihood "
        f"{log_likelihood:.3f} per pair, {after}: {folder}"
    )


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


class RoundProgress(keras.callbacks.ProgbarLogger):
    """Shows Keras's progress bar for each round, below a line with its number. Keras would call the round an epoch.

    Args:
        budget: Budget.
        updates_per_epoch: int. Number of updates in a pass over the pairs.

    Attributes:
        is_drawn: bool. Whether the last line of the terminal is the bar, which no line break follows yet.
    """

    def __init__(self, budget: Budget, updates_per_epoch: int) -> None:
        super().__init__()
        self._budget, self._updates_per_epoch = budget, updates_per_epoch
        self.is_drawn = False

    def set_params(self, params: dict[str, object]) -> None:
        super().set_params({**params, "verbose": 1, "epochs": 1})

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        budget = self._budget
        passes = budget.updates_done / self._updates_per_epoch
        share = f", {budget.done:.0%} of the training" if budget.done else ""
        updates = counted(budget.updates_done, "updates")
        print(f"Round {epoch + 1}: {updates}, {passes:.2f} epochs, {budget.seconds:,.0f} s{share}")
        super().on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        self.is_drawn = True

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        self.is_drawn = False
