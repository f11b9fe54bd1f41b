"""The drawing of Figure 3."""

from matplotlib.figure import Figure

from keras_encdec.analysis.drawing.style import BLUE, DENSITY_MAP, GREY, new_figure
from keras_encdec.analysis.score_comparison import ScoreComparison

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
