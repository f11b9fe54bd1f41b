"""The table of an experiment as a plot."""

import os
import pathlib

from keras_encdec.experiment.results import ExperimentResult
from keras_encdec.formats import open_output

# Okabe and Ito's colours, which the colour-blind can tell apart.
_DEV, _TEST = "#0072B2", "#D55E00"


def draw_results(result: ExperimentResult, folder: str | os.PathLike[str]) -> None:
    """Writes `results.svg` and `results.png`: the scores of each tuning, and their means.

    Args:
        result: ExperimentResult.
        folder: directory to write to.

    Raises:
        ImportError: when Matplotlib, of the extra `analysis`, is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'the plot needs Matplotlib, which is not installed: pip install "keras-encdec[analysis]".'
        ) from error
    rows = result.rows
    figure = Figure(figsize=(7.2, 1.4 + 0.5 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for offset, colour, marker, label in ((-0.13, _DEV, "o", "development"), (0.13, _TEST, "s", "test")):
        scores = [row.dev if label == "development" else row.test for row in rows]
        positions = [number + offset for number in range(len(rows))]
        for position, values in zip(positions, scores, strict=True):
            axes.plot(values, [position] * len(values), "|", color=colour, markersize=10, alpha=0.6)
        means = [sum(values) / len(values) for values in scores]
        axes.plot(means, positions, marker, color=colour, label=label, markersize=6)
        for mean, position in zip(means, positions, strict=True):
            axes.annotate(
                f"{mean:.2f}", (mean, position), (10, 0), textcoords="offset points", va="center", fontsize=9,
                color=colour,
            )  # fmt: skip
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.set_xlabel(f"{result.metric} (0 to 100): mean, and each tuning")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    for name, settings in (("results.svg", {"metadata": {"Date": None}}), ("results.png", {"dpi": 160})):
        with open_output(pathlib.Path(folder) / name) as file:
            figure.savefig(file, format=name[-3:], **settings)
