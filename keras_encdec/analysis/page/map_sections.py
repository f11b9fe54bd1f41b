"""Writes the sections with maps and nearest neighbours of words and phrases by their vectors."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from keras_encdec.analysis.page.figures import BLUE, GREY, INK, VERMILION, literal, rendered
from keras_encdec.analysis.page.page import Scatter, Section, Table, cut, fill, one_line
from keras_encdec.analysis.vectors import Vectors
from keras_encdec.formats.encodings import utf8

# Numbers of rare words, and of their neighbours, that the page shows.
SHOWN_RARE, NEIGHBOURS = 20, 5
# Number of points in a region, so that their names fit into its picture; minimum number of points of a map with
# regions.
POINTS, MIN_POINTS = 25, 40
#: Left, bottom, right and top of a part of a map.
Box: TypeAlias = tuple[float, float, float, float]

# Three colours of Okabe and Ito that contrast with the blue points; two are darkened to make letters legible.
REGION_COLOURS = (VERMILION, "#007a58", "#a2447b")
REGION_NAMES = "ABC"
# The colours of groups in the page.
GROUP_COLOURS = (BLUE, "#a2447b", "#00785a", "#946200", GREY)
PANEL = 4.7  # inches
FONT = 8.0  # points
LONGEST = 40  # letters of a name


def map_section(
    name: str, title: str, introduction: str, vectors: Vectors, points: np.ndarray, groups: Mapping[str, np.ndarray]
) -> Section:
    """Writes a map of words or phrases, their nearest neighbours, and their vectors for TensorBoard's projector.

    Args:
        name: str. Name of the section and of its files: what the vectors stand for, such as "phrases".
        title: str. Title of the section, plain text.
        introduction: str. Explains the vectors, plain text.
        vectors: Vectors.
        points: float array `(n, 2)`, see `project`.
        groups: dict from name to indices, which get their own colours, see `word_groups`.
    """
    boxes = map_regions(points)
    regions = dict(zip(REGION_NAMES, boxes, strict=False))
    indices, similarities = vectors.neighbours()
    rows = [
        (word, rank + 1, vectors.names[i], round(float(similarity), 4))
        for word, near, near_similarities in zip(vectors.names, indices, similarities, strict=True)
        for rank, (i, similarity) in enumerate(zip(near, near_similarities, strict=True))
    ]
    nearest = float(np.median(similarities[:, 0]))
    rounded = np.round(points.astype(float), 3).tolist()
    coordinates = [(label, x, y) for label, (x, y) in zip(vectors.names, rounded, strict=True)]
    caption = "Short distances are meaningful; the axes and long distances are not."
    if regions:
        caption += " The densest parts have letters."
    scatter = Scatter(
        name,
        f"Map of {len(points):,} {name}",
        caption,
        points,
        [vectors.names],
        name,
        neighbours=(indices, similarities),
        regions=regions,
        groups=groups,
    )
    body = fill("map", introduction=introduction, dimensions=vectors.array.shape[1], figure=scatter, nearest=nearest)
    files = {f"projector/{name}/{file}": content for file, content in projector_files(vectors).items()}
    tables = {
        f"{name}_map": Table(title, (name, "x", "y"), coordinates),
        f"{name}_neighbours": Table(title, (name, "rank", "neighbour", "cosine"), rows),
    }
    drawing = rendered(draw_map(points, vectors.names, boxes, groups))
    return Section(name, title, body, tables, {name: drawing}, files)


def projector_files(vectors: Vectors) -> dict[str, bytes]:
    """Writes the two files that TensorBoard's Embedding Projector loads: dict from file name to bytes."""
    lines = "\n".join("\t".join(f"{number:.6g}" for number in row) for row in vectors.array.tolist())
    # The projector skips lines that consist of white space, and treats a byte-order mark as white space.
    names = "\n".join(one_line(name) if name.strip().strip("\ufeff") else "(empty)" for name in vectors.names)
    return {"vectors.tsv": f"{lines}\n".encode(), "metadata.tsv": utf8(f"{names}\n")}


def rare_words_section(vectors: Vectors, rare: int) -> Section:
    """Writes the nearest neighbours of rare words, the first of the vectors, which are computed from characters."""
    indices, similarities = vectors.neighbours(NEIGHBOURS)
    rows = [
        (vectors.names[row], rank, vectors.names[i], "yes" if i < rare else "no", round(float(similarity), 4))
        for row in range(rare)
        for rank, (i, similarity) in enumerate(zip(indices[row], similarities[row], strict=True), start=1)
    ]
    shown = [
        (vectors.names[row], " · ".join(vectors.names[i] for i in indices[row])) for row in range(min(rare, SHOWN_RARE))
    ]
    table = Table("Rare words and the words nearest to them", ("rare word", "nearest words"), shown)
    body = fill("rare_words", rare=rare, frequent=len(vectors.names) - rare, table_=table)
    header = "rare word", "rank", "neighbour", "is rare", "cosine"
    title = "Rare words by their characters"
    return Section("rare-words", title, body, {"rare_words": Table(title, header, rows)})


def draw_map(
    points: np.ndarray, names: Sequence[str], regions: Sequence[Box], groups: Mapping[str, np.ndarray] | None = None
) -> Figure:
    """Draws a panel with all points, and a panel for each region with the names of its points.

    Args:
        points: float array `(n, 2)`.
        names: list of n str. If there is no room for all, the first names are written.
        regions: list of boxes, see `map_regions`.
        groups: dict from name to indices, each with its own colour in the first panel. Defaults to `None`: one colour.
    """
    panels = 1 + len(regions)
    columns = min(2, panels)
    rows = -(-panels // columns)
    figure = Figure(figsize=(PANEL * columns, PANEL * rows))
    gap = 0.02
    side = 1 - 2 * gap
    for number in range(panels):
        row, column = divmod(number, columns)
        position = ((column + gap) / columns, (rows - 1 - row + gap) / rows, side / columns, side / rows)
        axes = figure.add_axes(position)
        axes.set(xticks=[], yticks=[])
        axes.grid(False)
        if number:
            _draw_region(axes, points, names, regions[number - 1], REGION_COLOURS[number - 1])
            _letter(axes, REGION_NAMES[number - 1], REGION_COLOURS[number - 1])
        else:
            _draw_all(axes, points, names, regions, groups or {})
    return figure


def _draw_region(axes: Axes, points: np.ndarray, names: Sequence[str], region: Box, colour: str) -> None:
    left, bottom, right, top = region
    inside = (points >= (left, bottom)).all(axis=1) & (points <= (right, top)).all(axis=1)
    axes.set(xlim=(left, right), ylim=(bottom, top))
    axes.plot(*points[inside].T, ".", color=colour, markersize=5)
    _write_names(axes, points, names, np.flatnonzero(inside), region)
    _frame(axes, colour)


def _draw_all(
    axes: Axes, points: np.ndarray, names: Sequence[str], regions: Sequence[Box], groups: Mapping[str, np.ndarray]
) -> None:
    """Draws all points, each group in its colour, and the regions; without regions also the names."""
    middle, half = (points.max(axis=0) + points.min(axis=0)) / 2, np.ptp(points, axis=0).max() / 2 * 1.05 + 1e-6
    box = (*(middle - half), *(middle + half))
    axes.set(xlim=(box[0], box[2]), ylim=(box[1], box[3]))
    size = 2.2 if len(points) > 500 else 5
    shown = groups or {"": np.arange(len(points))}
    for members, colour in reversed([*zip(shown.values(), GROUP_COLOURS, strict=False)]):
        axes.plot(*points[members].T, ".", color=colour, markersize=size, alpha=0.7, rasterized=len(points) > 500)
    if groups:
        handles = [
            Line2D([], [], linestyle="", marker="o", markersize=4, color=colour, label=name)
            for name, colour in zip(groups, GROUP_COLOURS, strict=False)
        ]
        axes.legend(handles=handles, loc="upper left", fontsize=FONT - 1, handletextpad=0.1, borderaxespad=0.2)
    if not regions:
        _write_names(axes, points, names, np.arange(len(points)), box)
    for (left, bottom, right, top), colour, name in zip(regions, REGION_COLOURS, REGION_NAMES, strict=False):
        axes.add_patch(
            Rectangle((left, bottom), right - left, top - bottom, fill=False, edgecolor=colour, linewidth=1.8)
        )
        axes.annotate(
            name, (right, top), xytext=(2, 1), textcoords="offset points", color=colour, size=11, weight="bold"
        )
    _frame(axes, GREY)


def _frame(axes: Axes, colour: str) -> None:
    for spine in axes.spines.values():
        spine.set(visible=True, color=colour, linewidth=1.6)


def _letter(axes: Axes, name: str, colour: str) -> None:
    background = {"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85}
    axes.text(
        0.015, 0.985, name, transform=axes.transAxes, color=colour, size=13, weight="bold", va="top", bbox=background
    )


def _write_names(axes: Axes, points: np.ndarray, names: Sequence[str], indices: np.ndarray, box: Box) -> None:
    """Writes the names for which there is room, each to the right or the left of its point, above it or below it."""
    left, bottom, right, top = box
    side = 72 * PANEL * 0.96  # of the panel, in points
    scale = side / np.array([max(right - left, 1e-9), max(top - bottom, 1e-9)])
    spots = (points - (left, bottom)) * scale
    taken: list[Box] = [(0.0, side - 20, 20.0, side)]  # room for the letter of the region
    if len(indices) < 200:  # in an overview, the points would leave no room for any name
        taken += [(x - 2, y - 2, x + 2, y + 2) for x, y in spots[indices]]
    for i in indices:
        name = cut(names[i], LONGEST)
        for place in _places(name, *spots[i]):
            if _has_room(place.area, side, taken):
                taken.append(place.area)
                axes.annotate(
                    literal(name),
                    points[i],
                    xytext=place.offset,
                    textcoords="offset points",
                    ha=place.alignment,
                    fontsize=FONT,
                    color=INK,
                    annotation_clip=True,
                )
                break


class _Place(NamedTuple):
    """A place for the name of a point: its alignment, its offset from the point, and its area, in points."""

    alignment: Literal["left", "right", "center"]
    offset: tuple[float, float]
    area: Box


def _places(name: str, x: float, y: float) -> Iterator[_Place]:
    """Yields the places for a name: to the right or the left of its point `(x, y)`, above it or below it."""
    # Chinese characters, and boxes in their place, are wide.
    widths = (1.13 if unicodedata.east_asian_width(character) in "WF" else 0.56 for character in name)
    width, height = FONT * sum(widths) + 2, FONT * 1.15

    def place(alignment: Literal["left", "right", "center"], across: float, left: float, below: float) -> _Place:
        area = (x + left, y + below * height, x + left + width, y + below * height + height)
        return _Place(alignment, (across, (below + 0.2) * height), area)

    yield place("left", 3, 3, -0.5)
    yield place("right", -3, -3 - width, -0.5)
    yield place("center", 0, -width / 2, 0.35)
    yield place("center", 0, -width / 2, -1.35)


def _has_room(area: Box, side: float, taken: Sequence[Box]) -> bool:
    """Returns whether an area is in a square from (0, 0) to (side, side), and does not overlap any that is taken."""
    left, bottom, right, top = area
    if left < 0 or bottom < 0 or right > side or top > side:
        return False
    return all(left >= other[2] or right <= other[0] or bottom >= other[3] or top <= other[1] for other in taken)


def map_regions(points: np.ndarray, size: int = POINTS) -> list[Box]:
    """Finds the densest squares of a map that do not overlap.

    Args:
        points: float array `(n, 2)`.
        size: int. Approximate number of points in each square. Defaults to `25`.

    Returns:
        list of at most three boxes `(left, bottom, right, top)`, the densest first; empty for a map of fewer than 40
        points.
    """
    if len(points) < MIN_POINTS:
        return []
    radii = np.empty(len(points))
    for i, point in enumerate(points):
        radii[i] = np.partition(np.abs(points - point).max(axis=1), size)[size]
    boxes: list[Box] = []
    for i in np.argsort(radii, kind="stable"):
        half, (x, y) = 1.08 * float(radii[i]), points[i].tolist()
        left, bottom, right, top = x - half, y - half, x + half, y + half
        if all(right < box[0] or left > box[2] or top < box[1] or bottom > box[3] for box in boxes):
            boxes.append((left, bottom, right, top))
            if len(boxes) == len(REGION_NAMES):
                break
    return boxes
