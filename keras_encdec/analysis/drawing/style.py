"""How all figures look, and how they become files."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from keras_encdec.analysis.page.elements import utf8

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
