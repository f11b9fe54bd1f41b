"""What a training tells its user."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_encdec.trainers.training_result import TrainingResult, TrainingRound

if TYPE_CHECKING:
    import keras

    from keras_encdec.trainers.budget import Budget


def _print(line):
    print(line, flush=True)


class TrainingReporter:
    """Tells how a training goes: Keras's bar where standard output is a terminal, elsewhere a line a round.

    Subclasses may override any method.

    Args:
        say: callable of a line, such as `logging.info`. Defaults to printing it.
        bar: bool. Whether rounds are shown by Keras's bar, not by lines. Defaults to `None`: where `say` is not
            given and standard output is a terminal.
    """

    def __init__(self, say: Callable[[str], Any] | None = None, bar: bool | None = None) -> None:
        self.say = say or _print
        self.bar = say is None and sys.stdout.isatty() if bar is None else bar

    def prepared(
        self, summary: Mapping[str, int], malformed: int, vocabulary_sizes: Mapping[str, int], max_length: int
    ) -> None:
        """The pairs are prepared.

        Args:
            summary: counts of the preparation, see `PreparedPairs.summary`.
            malformed: lines that were left out.
            vocabulary_sizes: words in the shortlist of each side that the model has, "source" and "target".
            max_length: longest phrase kept.
        """
        what = "pairs" if "source" in vocabulary_sizes else "targets"
        self.say(
            f"{summary['unique']:,} unique {what} of {summary['read']:,}; left out: {summary['too_long']:,} longer "
            f"than {max_length} words, {summary['empty']:,} with an empty side, {malformed:,} malformed."
        )
        for side, words in vocabulary_sizes.items():
            share = 100 * summary[f"{side}_unknown"] / summary[f"{side}_tokens"]
            self.say(f"{side}: {words:,} words in the shortlist; {share:.2f} % of the tokens are other words.")

    def prepared_before(self, files: Iterable[str], given: Iterable[str]) -> None:
        """A training goes on with its pairs, and other files were given.

        Args:
            files: those that the pairs were prepared from.
            given: those that are not read.
        """
        names = ", ".join(map(str, given))
        self.say(f"Going on with the pairs that were prepared from {', '.join(map(str, files))}; {names} is not read.")

    def built(self, weights: int) -> None:
        """A new model has this number of weights."""
        self.say(f"{weights:,} weights.")

    def callbacks(self, budget: "Budget", updates_per_epoch: int) -> Sequence["keras.callbacks.Callback"]:
        """Keras callbacks that show what goes on within a round."""
        if not self.bar:
            return []
        from keras_encdec.trainers.round_progress import RoundProgress

        return [RoundProgress(budget, updates_per_epoch)]

    def round_ended(
        self, number: int, training_round: TrainingRound, epochs: float, rate: float, seconds_left: float | None
    ) -> None:
        """A round was trained, validated and kept.

        Args:
            number: int, from 1.
            training_round: TrainingRound.
            epochs: float. Passes over the pairs so far.
            rate: float. Pairs a second in this round, validation included.
            seconds_left: float; `None` where the training has no end that is known.
        """
        if self.bar:
            return
        held_out, bleu = training_round.val_perplexity, training_round.val_bleu
        self.say(
            f"Round {number}: {training_round.updates:,} updates, {epochs:.2f} epochs, {training_round.pairs:,} pairs, "
            f"{rate:,.0f} pairs/s; perplexity {training_round.perplexity:.3f}"
            + (f", held-out {held_out:.3f}" if held_out is not None else "")
            + (f", BLEU {bleu:.2f}" if bleu is not None else "")
            + (f"; {_duration(seconds_left)} left." if seconds_left is not None else ".")
        )

    def ended(self, result: TrainingResult) -> None:
        """The training came to its end, or was stopped."""
        self.say(_summary(result))
        if result.compiled_shapes:
            self.say(
                f"Compiling took {result.compile_seconds:,.0f} s of it; shapes of batches: {result.compiled_shapes}."
            )

    def already_ended(self, result: TrainingResult) -> None:
        """The training to go on with had come to its end before."""
        self.say(f"Nothing to go on with, the training has come to its end: {_summary(result)}")


def _summary(result):
    best, last = result.best, result.last
    held_out = best.val_perplexity is not None
    perplexity = best.val_perplexity if held_out else best.perplexity
    log_likelihood = best.val_log_likelihood if held_out else best.log_likelihood
    bleu = "" if best.val_bleu is None else f"BLEU {best.val_bleu:.2f}, "
    after = f"after {best.updates:,} updates"
    if best.averaged_rounds is not None:
        after = f"of the average of the last {best.averaged_rounds} rounds"
    return (
        f"{last.updates:,} updates, {last.pairs:,} pairs in {result.seconds:,.0f} s. Best "
        f"{'held-out ' if held_out else ''}{bleu}perplexity {perplexity:.3f} per token, log-likelihood "
        f"{log_likelihood:.3f} per pair, {after}: {result.model_dir}"
    )


def _duration(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
