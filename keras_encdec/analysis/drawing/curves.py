"""The drawings of trainings, of scores by length and frequency, and of BLEU by length."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from keras_encdec.analysis.binned_scores import BinnedScores
from keras_encdec.analysis.bleu_by_length import LengthBleu
from keras_encdec.analysis.drawing.style import BLUE, COLOURS, literal, new_figure
from keras_encdec.analysis.training_runs import TrainingRun


def draw_training(runs: Sequence[TrainingRun], names: Sequence[tuple[str, str]], label: str) -> Figure:
    """A measure of trainings over their updates.

    Args:
        runs: list of TrainingRun, each in a colour of its own.
        names: list of pairs: attribute of TrainingRound, and what it is of; the second is drawn dashed.
        label: str. Of the vertical axis.
    """
    figure, (axes,) = new_figure()
    for number, run in enumerate(runs):
        for (name, what), line in zip(names, ("-", "--"), strict=False):
            updates, values = run.values(name)
            if values:
                said = ", ".join(part for part in (literal(run.name) if len(runs) > 1 else "", what) if part)
                axes.plot(
                    updates, values, line, color=COLOURS[number % len(COLOURS)], marker="o", markersize=3, label=said
                )
    axes.set(xlabel="updates", ylabel=label)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if "perplexity" in label:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.4g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    if any(axes.get_legend_handles_labels()[1]):
        axes.legend()
    return figure


def draw_binned_scores(scores: BinnedScores, label: str, logarithmic: bool = False) -> Figure:
    """Median and quartiles of ln p a token."""
    figure, (axes,) = new_figure()
    low, median, high = scores.quartiles.T
    axes.fill_between(scores.keys, low, high, color=BLUE, alpha=0.2, linewidth=0, label="half of the pairs")
    axes.plot(scores.keys, median, color=BLUE, marker="o", markersize=3.5, label="median")
    axes.set(xlabel=label, ylabel="ln p a target token (nats)")
    if logarithmic:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.legend()
    return figure


def draw_bleu(bins: Sequence[LengthBleu], whole: float) -> Figure:
    """BLEU by length, and that of all sentences as a line."""
    figure, (axes,) = new_figure()
    bars = axes.bar([one.words for one in bins], [one.bleu for one in bins], color=BLUE, width=0.7)
    axes.bar_label(bars, [f"{one.bleu:.1f}" for one in bins], padding=2, fontsize=9)
    axes.axhline(whole, color=COLOURS[1], linestyle="--", linewidth=1.2, label=f"all sentences: {whole:.1f}")
    axes.set(xlabel="source words of the sentence", ylabel="BLEU (0 to 100)")
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.2)
    axes.legend(loc="upper right")
    return figure
