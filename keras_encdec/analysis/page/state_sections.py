"""Writes the sections about gates, attention and maps."""

from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.gates import PhraseGates, UnitGates
from keras_encdec.analysis.page.figures import draw_attention, draw_gate_values, draw_gates, draw_units, drawn
from keras_encdec.analysis.page.maps import REGION_NAMES, draw_map, map_regions
from keras_encdec.analysis.page.page import Scatter, Section, Table, fill, utf8
from keras_encdec.analysis.vectors import Vectors
from keras_encdec.decoding.text_generator import TextHypothesis

ENDS = 8
EXAMPLES = 5


def gate_section(shown: Sequence[PhraseGates], corpus: Sequence[PhraseGates]) -> Section:
    """Writes heat maps of the gates over phrases, and the statistics of each unit over a corpus.

    Args:
        shown: list of PhraseGates to draw as heat maps.
        corpus: list of PhraseGates of the corpus.
    """
    units = UnitGates.of(corpus)
    order = np.argsort(-units.kept, kind="stable")
    statistics = {
        "gates_units": drawn(
            draw_units(units),
            "How much each unit keeps and how often it resets",
            "Each point is a unit: how much of its state it keeps at a word, and how often it resets.",
        ),
        "gates_values": drawn(
            draw_gate_values(corpus),
            "How often the gates have each value",
            "The values of all units at all words.",
        ),
    }
    phrases = {
        f"gates_{number}": drawn(
            draw_gates(gates, order),
            f"Update and reset gates over the phrase: {' '.join(gates.words)}",
            " ".join(gates.words[:-1]),
        )
        for number, gates in enumerate(shown, start=1)
    }
    rows = [
        (unit, round(float(kept), 5), round(float(resets), 5))
        for unit, (kept, resets) in enumerate(zip(units.kept, units.resets, strict=True))
    ]
    varies = np.ptp(units.kept) and np.ptp(units.resets)
    body = fill(
        "sections.html",
        "gates",
        words=units.tokens,
        sources=len(corpus),
        r=float(np.corrcoef(units.kept, units.resets)[0, 1]) if varies else None,
        statistics=statistics.values(),
        tables=[
            _unit_table("The units that keep longest", units, units.keep_longest(ENDS)),
            _unit_table("The units that reset most often", units, units.reset_most(ENDS)),
        ],
        shown=phrases.values(),
    )
    tables = {"gates": Table("Units", ("unit", "mean z", "share of words with r < 0.5"), rows)}
    return Section("gates", "Gates (section 2.3)", body, tables, statistics | phrases)


def _unit_table(caption: str, units: UnitGates, chosen: np.ndarray) -> Table:
    header = "unit", "mean z", "resets (%)", "lets in most at", "resets most at"
    rows = [
        (
            f"{unit}",
            f"{units.kept[unit]:.3f}",
            f"{100 * units.resets[unit]:.1f}",
            " · ".join(units.taken_in(unit, EXAMPLES)),
            " · ".join(units.reset_at(unit, EXAMPLES)),
        )
        for unit in chosen.tolist()
    ]
    return Table(caption, header, rows)


def attention_section(translations: Sequence[TextHypothesis]) -> Section:
    """Writes which words of the source the model attends to at each word of its translation.

    Args:
        translations: list of TextHypothesis, with their attention.
    """
    pictures, rows = {}, []
    for number, best in enumerate(translations, start=1):
        assert best.attention is not None
        described = f"{' '.join(best.source_words)} → {' '.join(best.words)}"
        figure = draw_attention(best.source_words, best.words, best.attention)
        pictures[f"attention_{number}"] = drawn(figure, f"Attention: {described}", described)
        for word, weights in zip((*best.words, "(end)"), best.attention, strict=True):
            for read, weight in zip((*best.source_words, "(end)"), weights, strict=True):
                rows.append((number, word, read, round(float(weight), 5)))
    body = fill("sections.html", "attention", drawings=pictures.values())
    table = Table("Weights of attention", ("sentence", "target token", "source token", "weight"), rows)
    return Section("attention", "Attention", body, {"attention": table}, pictures)


def map_section(name: str, title: str, introduction: str, vectors: Vectors, points: np.ndarray) -> Section:
    """Writes a map of words or phrases, their nearest neighbours, and their vectors for TensorBoard's projector.

    Args:
        name: str. Name of the section and of its files: what the vectors stand for, such as "phrases".
        title: str. Title of the section, plain text.
        introduction: str. Explains the vectors, plain text.
        vectors: Vectors.
        points: float array `(n, 2)`, see `project`.
    """
    boxes = map_regions(points)
    regions = dict(zip(REGION_NAMES, boxes, strict=False))
    indices, similarities = vectors.neighbours()
    rows = [
        (word, rank + 1, vectors.names[i], round(float(similarity), 4))
        for word, near, near_similarities in zip(vectors.names, indices, similarities, strict=True)
        for rank, (i, similarity) in enumerate(zip(near, near_similarities, strict=True))
    ]
    rounded = np.round(points.astype(float), 3).tolist()
    coordinates = [(label, x, y) for label, (x, y) in zip(vectors.names, rounded, strict=True)]
    scatter = Scatter(
        name,
        f"Map of {len(points):,} {name} by t-SNE",
        "Distances within a neighbourhood have a meaning, the axes and distances across the map have none. A, B and C "
        "are the densest parts.",
        points,
        [vectors.names],
        name,
        neighbours=(indices, similarities),
        regions=regions,
    )
    body = fill("sections.html", "map", introduction=introduction, dimensions=vectors.array.shape[1], figure=scatter)
    files = {f"projector/{name}/{file}": content for file, content in projector_files(vectors).items()}
    tables = {
        f"{name}_map": Table(title, (name, "x", "y"), coordinates),
        f"{name}_neighbours": Table(title, (name, "rank", "neighbour", "cosine"), rows),
    }
    drawing = drawn(draw_map(points, vectors.names, boxes))
    return Section(name, title, body, tables, {name: drawing}, files)


def projector_files(vectors: Vectors) -> dict[str, bytes]:
    """Writes the two files that TensorBoard's Embedding Projector loads: dict of file name to bytes."""
    lines = "\n".join("\t".join(f"{number:.6g}" for number in row) for row in vectors.array.tolist())
    names = "\n".join(" ".join(name.split()) or "(empty)" for name in vectors.names)
    return {"vectors.tsv": f"{lines}\n".encode(), "metadata.tsv": utf8(f"{names}\n")}
