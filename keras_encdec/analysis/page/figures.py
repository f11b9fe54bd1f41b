"""Draws the figures of the report, in a common style, and writes them as SVG and PNG."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter

from keras_encdec.analysis.gates import END_OF_SEQUENCE, PhraseGates, UnitGates
from keras_encdec.analysis.page.fonts import choose_fonts
from keras_encdec.analysis.page.page import Drawing, cut
from keras_encdec.analysis.score_statistics import BinnedScores, LengthBleu, ScoreComparison
from keras_encdec.formats.encodings import utf8
from keras_encdec.runtime.progress import counted

if TYPE_CHECKING:  # matplotlib 3.10 lacks RcKeyType
    from matplotlib.typing import RcKeyType

# Okabe and Ito's palette, which is safe for colour-blind readers.
BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
INK, GREY = "#1a1c1f", "#54595f"
# For densities, gates and attention: it goes from light to dark, even when printed in grey. The map for densities
# leaves out the lightest colours, which would be invisible on white.
COLOUR_MAP = matplotlib.colormaps["YlGnBu"]
DENSITY_MAP = ListedColormap(COLOUR_MAP(np.linspace(0.2, 1, 256)))
DOTS_PER_INCH = 160

SETTINGS: "dict[RcKeyType, object]" = {
    "savefig.facecolor": "white",
    "font.size": 10,
    "text.color": INK,  # matplotlib writes no style for black text, so `adaptive` could not change its colour
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
    """Applies the common style to figures that are made and saved in the `with` block."""
    logger = logging.getLogger("matplotlib.font_manager")  # it would warn about each missing font and glyph
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with matplotlib.rc_context(SETTINGS):
            yield
    finally:
        logger.setLevel(level)


def new_figure(width: float = 4.2, height: float = 3.1) -> tuple[Figure, Axes]:
    """Makes a figure with its axes. Width and height are in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def literal(text: str) -> str:
    """Escapes a user's text for a figure: a dollar sign would begin a formula, and bytes must be valid UTF-8."""
    return utf8(text).decode().replace("$", r"\$")


def rendered(figure: Figure, description: str = "", caption: str = "") -> Drawing:
    """Renders a figure as SVG and PNG. One that is not in the page needs no description."""
    svg, png = io.BytesIO(), io.BytesIO()
    with drawing_style(), warnings.catch_warnings():
        boxes = choose_fonts(figure)
        # The font has a box for a missing glyph.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        # Without dates and versions, equal figures are equal files.
        figure.savefig(svg, format="svg", dpi=DOTS_PER_INCH, metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return Drawing(svg.getvalue(), png.getvalue(), description, caption, boxes)


def draw_binned_scores(scores: BinnedScores, label: str, logarithmic: bool = False) -> Figure:
    """Draws the median and the quartiles of ln p per token; `label` is that of the horizontal axis."""
    figure, axes = new_figure()
    low, median, high = scores.quartiles.T
    axes.fill_between(scores.keys, low, high, color=BLUE, alpha=0.2, linewidth=0, label="half of the pairs")
    axes.plot(scores.keys, median, color=BLUE, marker="o", markersize=3.5, label="median")
    axes.set(xlabel=label, ylabel="ln p per target token (nats)")
    if logarithmic:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(LogLocator(2, numticks=5))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.legend()
    return figure


def draw_bleu(bins: Sequence[LengthBleu], corpus_bleu: float) -> Figure:
    """Draws BLEU by length as bars, and BLEU of all sentences as a line."""
    figure, axes = new_figure()
    bars = axes.bar([each.words for each in bins], [each.bleu for each in bins], color=BLUE, width=0.7)
    axes.bar_label(bars, [f"{each.bleu:.1f}" for each in bins], padding=2, fontsize=9)
    label = f"all sentences: {corpus_bleu:.1f}"
    axes.axhline(corpus_bleu, color=VERMILION, linestyle="--", linewidth=1.2, label=label)
    axes.set(xlabel="source words of the sentence", ylabel="BLEU (0 to 100)")
    axes.grid(axis="x", visible=False)
    axes.set_ylim(0, 1.2 * max(1, corpus_bleu, *(each.bleu for each in bins)))
    axes.legend(loc="upper right")
    return figure


# Number of letters of a longer word that a figure shows.
SHOWN_LETTERS = 16


def draw_gates(gates: PhraseGates, order: np.ndarray) -> Figure:
    """Draws the update and reset gates over a phrase as heat maps; `order` lists the units from top to bottom."""
    figure = Figure(figsize=(max(4.4, 0.32 * len(gates.words) + 1.8), 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, values, title in ((left, gates.update, "update gate z"), (right, gates.reset, "reset gate r")):
        image = axes.imshow(values.T[order], aspect="auto", cmap=COLOUR_MAP, vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title)
        _label_columns(axes, gates.words)
        axes.grid(False)
    left.set_ylabel("units, those that keep most on top")
    figure.colorbar(image, ax=[left, right], shrink=0.8, label="value of the gate")
    return figure


def draw_units(units: UnitGates) -> Figure:
    """Plots how much each unit keeps against how often it resets."""
    figure, axes = new_figure(4.4, 3.6)
    axes.plot(units.kept, 100 * units.resets, ".", color=BLUE, alpha=0.55)
    axes.set(xlabel="mean of the update gate z (1: keeps its state)", ylabel="words at which it resets, r < 0.5 (%)")
    highest = max(100 * units.resets.max(), 10)  # if no unit resets, the axis would also show negative shares
    axes.set_ylim(-0.05 * highest, 1.05 * highest)
    return figure


def draw_gate_values(gates: Sequence[PhraseGates]) -> Figure:
    """Draws a histogram of the values of gates."""
    figure, axes = new_figure(4.4, 3.6)
    bins = np.linspace(0, 1, 41)
    lines = ("update", "update gate z", BLUE, "-"), ("reset", "reset gate r", VERMILION, "--")
    for name, label, colour, style in lines:
        values = np.concatenate([getattr(phrase, name).ravel() for phrase in gates])
        shares = 100 * np.histogram(values, bins)[0] / max(len(values), 1)
        axes.stairs(shares, bins, color=colour, linestyle=style, linewidth=1.6, label=label)
    axes.set(xlabel="value of the gate", ylabel="units and words (%)", xlim=(0, 1))
    axes.legend()
    return figure


def draw_attention(source: Sequence[str], target: Sequence[str], weights: np.ndarray) -> Figure:
    """Draws the attention `(target + 1, source + 1)` of each target token to the source tokens as a heat map."""
    columns, rows = len(source) + 1, len(target) + 1
    figure = Figure(figsize=(max(3.4, 0.24 * columns + 2.2), max(3.0, 0.21 * rows + 1.5)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights, cmap=COLOUR_MAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    _label_columns(axes, [*source, END_OF_SEQUENCE])
    axes.set_yticks(range(rows), [_short(word) for word in (*target, END_OF_SEQUENCE)], fontsize=9)
    axes.set(xlabel="source token", ylabel="target token")
    axes.grid(False)
    figure.colorbar(image, ax=axes, shrink=0.85, label="attention weight")
    return figure


def _label_columns(axes: Axes, words: Sequence[str]) -> None:
    labels = [_short(word) for word in words]
    axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right", rotation_mode="anchor", fontsize=9)


def _short(word: str) -> str:
    return literal(cut(word, SHOWN_LETTERS))


# Above this number of points, the density is drawn instead.
MAX_POINTS = 2000
TABLE_LABEL = "ln p(target | source) by the phrase table (nats)"
MODEL_LABEL = "ln p(target | source) by the model (nats)"


def draw_scores(comparison: ScoreComparison) -> Figure:
    """Draws the model's ln p of each pair against the table's."""
    figure, axes = new_figure(5.6, 4.4)
    left, bottom, right, top = comparison.view
    right, top = right + 0.04 * (right - left), top + 0.04 * (top - bottom)
    if len(comparison.table) > MAX_POINTS:
        bins = axes.hexbin(
            comparison.table,
            comparison.model,
            gridsize=70,
            extent=(left, right, bottom, top),
            bins="log",
            mincnt=1,
            cmap=DENSITY_MAP,
            linewidths=0.1,
        )
        figure.colorbar(bins, ax=axes, label="pairs")
    else:
        axes.plot(comparison.table, comparison.model, ".", color=BLUE, alpha=0.6)
    low = max(comparison.table.min(), comparison.model.min())
    axes.axline((low, low), slope=1, color=GREY, linestyle="--", linewidth=1)
    axes.set(xlim=(left, right), ylim=(bottom, top), xlabel=TABLE_LABEL, ylabel=MODEL_LABEL)
    if comparison.out_of_view:
        axes.set_title(f"{counted(comparison.out_of_view, 'pairs')} outside", loc="right", fontsize=9)
    return figure
