"""How all figures look, and how they become files."""

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from keras_encdec.analysis.gates import PhraseGates, UnitGates
from keras_encdec.analysis.page.page import utf8
from keras_encdec.analysis.score_statistics import BinnedScores, LengthBleu, ScoreComparison
from keras_encdec.analysis.training_runs import TrainingRun

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
INK, GREY = "#1a1c1f", "#54595f"
# Of densities, gates and attention: from light to dark, also in grey. A density's lightest stands out from the paper.
COLOUR_MAP = matplotlib.colormaps["YlGnBu"]
DENSITY_MAP = ListedColormap(COLOUR_MAP(np.linspace(0.2, 1, 256)))
DOTS_PER_INCH = 160

SETTINGS = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "keras-encdec",
    "font.family": ["DejaVu Sans", "Noto Sans CJK JP", "Noto Sans", "sans-serif"],
}


@contextlib.contextmanager
def drawing_style() -> Iterator[None]:
    """Has figures that are made and saved within look alike."""
    import logging

    logger = logging.getLogger("matplotlib.font_manager")  # says of every font and glyph that is not there
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with matplotlib.rc_context(SETTINGS):
            yield
    finally:
        logger.setLevel(level)


def new_figure(width: float = 4.2, height: float = 3.1, columns: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, whose sizes are given in inches for each of the axes."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def literal(text: str) -> str:
    """A user's text in a figure: a dollar begins no formula, and undecoded bytes are shown as such."""
    return utf8(text).decode().replace("$", r"\$")


class Drawing(NamedTuple):
    """A figure as files.

    Attributes:
        svg, png: bytes.
    """

    svg: bytes
    png: bytes


def drawn(figure: Figure) -> Drawing:
    """Draws a figure."""
    files = []
    with drawing_style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # it is drawn as a box
        for form, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            file = io.BytesIO()
            figure.savefig(file, format=form, dpi=DOTS_PER_INCH, metadata=metadata, facecolor="white")
            files.append(file.getvalue())
    return Drawing(*files)


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


LONGEST_WORD = 16


def draw_gates(gates: PhraseGates, order: np.ndarray) -> Figure:
    """Update and reset gates of all units over a phrase.

    Args:
        gates: PhraseGates.
        order: int array, the units from top to bottom.
    """
    figure = Figure(figsize=(4.4, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, values, title in ((left, gates.update, "update gate z"), (right, gates.reset, "reset gate r")):
        image = axes.imshow(values.T[order], aspect="auto", cmap=COLOUR_MAP, vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title)
        axes.set_xticks(
            range(len(gates.words)),
            [_short(word) for word in gates.words],
            rotation=60,
            ha="right",
            rotation_mode="anchor",
            fontsize=9,
        )
        axes.grid(False)
    left.set_ylabel("units, those that keep most on top")
    figure.colorbar(image, ax=[left, right], shrink=0.8, label="value of the gate")
    return figure


def draw_units(units: UnitGates) -> Figure:
    """How much each unit keeps, and how often it resets."""
    figure, (axes,) = new_figure(4.4, 3.6)
    axes.plot(units.kept, 100 * units.resets, ".", color=BLUE, alpha=0.55)
    axes.set(xlabel="mean of the update gate z (1: keeps its state)", ylabel="words at which it resets, r < 0.5 (%)")
    return figure


def draw_gate_values(gates: Sequence[PhraseGates]) -> Figure:
    """How often gates have each value."""
    figure, (axes,) = new_figure(4.4, 3.6)
    bins = np.linspace(0, 1, 41)
    lines = ("update", "update gate z", BLUE, "-"), ("reset", "reset gate r", VERMILION, "--")
    for name, label, colour, style in lines:
        values = np.concatenate([getattr(one, name).ravel() for one in gates])
        shares = 100 * np.histogram(values, bins)[0] / max(len(values), 1)
        axes.stairs(shares, bins, color=colour, linestyle=style, linewidth=1.6, label=label)
    axes.set(xlabel="value of the gate", ylabel="units and words (%)", xlim=(0, 1))
    axes.legend()
    return figure


def draw_attention(source: Sequence[str], target: Sequence[str], weights: np.ndarray) -> Figure:
    """Which source tokens each target token attends to.

    Args:
        source, target: lists of str, the words without their ends of sequence.
        weights: float array `(target + 1, source + 1)`.
    """
    columns, rows = len(source) + 1, len(target) + 1
    figure = Figure(figsize=(max(3.4, 0.24 * columns + 2.2), max(3.0, 0.21 * rows + 1.5)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights, cmap=COLOUR_MAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks(
        range(columns),
        [_short(word) for word in (*source, "(end)")],
        rotation=60,
        ha="right",
        rotation_mode="anchor",
        fontsize=9,
    )
    axes.set_yticks(range(rows), [_short(word) for word in (*target, "(end)")], fontsize=9)
    axes.set(xlabel="source token", ylabel="target token")
    axes.grid(False)
    figure.colorbar(image, ax=axes, shrink=0.85, label="weight of attention")
    return figure


def _short(word):
    return literal(word if len(word) <= LONGEST_WORD else f"{word[: LONGEST_WORD - 1]}…")


# More points are drawn as a density.
MOST_POINTS = 2000
TABLE_LABEL = "ln p(target | source) by the phrase table (nats)"
MODEL_LABEL = "ln p(target | source) by the model (nats)"


def draw_scores(comparison: ScoreComparison) -> Figure:
    """The model's ln p of each pair against the table's."""
    figure, (axes,) = new_figure(5.6, 4.4)
    if len(comparison.table) > MOST_POINTS:
        bins = axes.hexbin(
            comparison.table, comparison.model, gridsize=70, bins="log", mincnt=1, cmap=DENSITY_MAP, linewidths=0.1
        )
        figure.colorbar(bins, ax=axes, label="pairs")
    else:
        axes.plot(comparison.table, comparison.model, ".", color=BLUE, alpha=0.6)
    low = max(comparison.table.min(), comparison.model.min())
    axes.axline((low, low), slope=1, color=GREY, linestyle="--", linewidth=1)
    margins = 0.04 * max(1.0, float(comparison.model.max() - comparison.model.min()))
    axes.set_ylim(comparison.model.min() - margins, comparison.model.max() + margins)
    axes.set(xlabel=TABLE_LABEL, ylabel=MODEL_LABEL)
    return figure
