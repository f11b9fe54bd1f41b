"""Figures 4 to 7 as sections of the report."""

import numpy as np

from keras_encdec.analysis.drawing.maps import REGION_NAMES, draw_map
from keras_encdec.analysis.drawing.style import drawn
from keras_encdec.analysis.map_regions import map_regions
from keras_encdec.analysis.page.elements import Table, utf8
from keras_encdec.analysis.page.scatter import Scatter
from keras_encdec.analysis.page.section import Section
from keras_encdec.analysis.vectors import Vectors


def map_section(name: str, title: str, words: str, unit: str, vectors: Vectors, points: np.ndarray) -> Section:
    """A map of words or phrases, their nearest neighbours, and their vectors for TensorBoard's projector.

    Args:
        name: str. The section's, and of its files.
        title: str.
        words: str. HTML, what the vectors are.
        unit: str. What has vectors, such as "phrases".
        vectors: Vectors.
        points: float array `(n, 2)`, see `project`.
    """
    boxes = map_regions(points)
    regions = dict(zip(REGION_NAMES, boxes, strict=False))
    indices, similarities = vectors.neighbours()
    rows = [
        (name, rank + 1, vectors.names[i], round(float(similarity), 4))
        for name, near, near_similarities in zip(vectors.names, indices, similarities, strict=True)
        for rank, (i, similarity) in enumerate(zip(near, near_similarities, strict=True))
    ]
    places = [
        (one, float(x), float(y)) for one, (x, y) in zip(vectors.names, np.round(points.astype(float), 3), strict=True)
    ]
    scatter = Scatter(
        name, f"Map of {len(points):,} {unit} by t-SNE",
        "Distances within a neighbourhood mean something, axes and distances across the map do not. A, B and C are the "
        "densest parts.",
        points, [vectors.names], unit, neighbours=(indices, similarities), regions=regions,
    )  # fmt: skip
    body = (
        f"{words}<p>Two dimensions by Barnes-Hut t-SNE. Search for a word, or click a point for its nearest neighbours "
        f"by the cosine of the {vectors.array.shape[1]} dimensions that the vectors really have.</p>"
    )
    files = {f"projector/{name}/{file}": content for file, content in projector_files(vectors).items()}
    tables = {
        f"{name}_map": Table(title, (unit, "x", "y"), places),
        f"{name}_neighbours": Table(title, (unit, "rank", "neighbour", "cosine"), rows),
    }
    drawing = drawn(draw_map(points, vectors.names, boxes))
    return Section(name, title, body + scatter.to_html(), tables, {name: drawing}, files)


def projector_files(vectors: Vectors) -> dict[str, bytes]:
    """The two files that TensorBoard's Embedding Projector loads: dict from names to bytes."""
    lines = "\n".join("\t".join(f"{number:.6g}" for number in row) for row in vectors.array.tolist())
    names = "\n".join(" ".join(name.split()) or "(empty)" for name in vectors.names)
    return {"vectors.tsv": f"{lines}\n".encode(), "metadata.tsv": utf8(f"{names}\n")}
