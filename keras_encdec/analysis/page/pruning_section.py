"""Writes the section about the weights that were pruned."""

from collections.abc import Mapping

from keras_encdec.analysis.page.figures import BLUE, drawn, new_figure
from keras_encdec.analysis.page.page import Section, Table, fill


def pruning_section(shares: Mapping[str, tuple[int, int]]) -> Section:
    """Writes the share of the weights that is pruned, by class and layer.

    Args:
        shares: dict of the class's name to the number of its zeros and that of its weights, see `shares_pruned`.
    """
    zeros, weights = (sum(column) for column in zip(*shares.values(), strict=True))
    whole = 100 * zeros / weights
    names, percent = list(shares)[::-1], [100 * pruned / size for pruned, size in shares.values()][::-1]
    figure, (axes,) = new_figure(height=0.9 + 0.28 * len(names))
    bars = axes.barh(names, percent, color=BLUE, height=0.7)
    axes.bar_label(bars, [f"{value:.0f}" for value in percent], padding=2, fontsize=9)
    axes.axvline(whole, color="0.5", linestyle="--", linewidth=1.2)
    axes.set(xlabel="weights that are zero (%)", xlim=(0, 108))
    axes.grid(axis="y", visible=False)
    drawing = drawn(figure, f"Share of the weights that is zero, by class; {whole:.1f} % of all weights")
    rows = [(name, size, pruned, round(pruned / size, 4)) for name, (pruned, size) in shares.items()]
    table = Table("Pruned weights by class", ("class", "weights", "zeros", "share"), rows)
    body = fill("sections.html", "pruning", share=f"{whole:.1f} %", drawing=drawing, classes=table)
    return Section("pruning", "Pruned weights", body, {"pruning": table}, {"pruning": drawing})
