"""The drawings of gates and of attention."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from keras_encdec.analysis.drawing.style import BLUE, COLOUR_MAP, VERMILION, literal, new_figure
from keras_encdec.analysis.gates import PhraseGates, UnitGates

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
        axes.set_xticks(range(len(gates.words)), [_short(word) for word in gates.words], rotation=60, ha="right",
                        rotation_mode="anchor", fontsize=9)  # fmt: skip
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
    axes.set_xticks(range(columns), [_short(word) for word in (*source, "(end)")], rotation=60, ha="right",
                    rotation_mode="anchor", fontsize=9)  # fmt: skip
    axes.set_yticks(range(rows), [_short(word) for word in (*target, "(end)")], fontsize=9)
    axes.set(xlabel="source token", ylabel="target token")
    axes.grid(False)
    figure.colorbar(image, ax=axes, shrink=0.85, label="weight of attention")
    return figure


def _short(word):
    return literal(word if len(word) <= LONGEST_WORD else f"{word[: LONGEST_WORD - 1]}…")
