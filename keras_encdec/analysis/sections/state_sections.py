"""Writes the sections about gates, attention and maps."""

from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.drawing.figures import draw_attention, draw_gate_values, draw_gates, draw_units, drawn
from keras_encdec.analysis.drawing.maps import REGION_NAMES, draw_map, map_regions
from keras_encdec.analysis.gates import PhraseGates, UnitGates
from keras_encdec.analysis.page.page import Scatter, Section, Table, number_text, picture, utf8
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
    pictures = {"gates_units": drawn(draw_units(units)), "gates_values": drawn(draw_gate_values(corpus))}
    pictures |= {f"gates_{number}": drawn(draw_gates(gates, order)) for number, gates in enumerate(shown, start=1)}
    descriptions = [
        "How much each unit keeps and how often it resets",
        "How often the gates have each value",
        *(f"Update and reset gates over the phrase: {' '.join(gates.words)}" for gates in shown),
    ]
    captions = [
        "Each point is a unit: how much of its state it keeps at a word, and how often it resets.",
        "The values of all units at all words.",
        *(" ".join(gates.words[:-1]) for gates in shown),
    ]
    images = [
        picture(drawing.svg, description, caption)
        for drawing, description, caption in zip(pictures.values(), descriptions, captions, strict=True)
    ]
    r = np.corrcoef(units.kept, units.resets)[0, 1] if np.ptp(units.kept) and np.ptp(units.resets) else float("nan")
    keeping, resetting = (
        Table(
            caption,
            ("unit", "mean z", "resets (%)", "lets in most at", "resets most at"),
            [
                (
                    f"{unit}",
                    f"{units.kept[unit]:.3f}",
                    f"{100 * units.resets[unit]:.1f}",
                    " · ".join(units.taken_in(unit, EXAMPLES)),
                    " · ".join(units.reset_at(unit, EXAMPLES)),
                )
                for unit in chosen
            ],
        )
        for caption, chosen in (
            ("The units that keep longest", units.keep_longest(ENDS)),
            ("The units that reset most often", units.reset_most(ENDS)),
        )
    )
    rows = [
        (unit, round(float(kept), 5), round(float(resets), 5))
        for unit, (kept, resets) in enumerate(zip(units.kept, units.resets, strict=True))
    ]
    related = "" if np.isnan(r) else f" Over the units, the two have the correlation {number_text(float(r))}."
    body = (
        "<p>Section 2.3 of the paper expects units with short memory to reset often, and those with long memory to "
        f"have update gates that mostly keep: z near 1. Counted over {units.tokens:,} words of {len(corpus):,} sources,"
        f" including ends of sequence.{related} The gates are those of the encoder’s first layer, left to right.</p>"
    )
    body += f'<div class="pictures">{"".join(images[:2])}</div>{keeping.to_html()}{resetting.to_html()}'
    body += f'<h3>Over a phrase</h3><div class="pictures">{"".join(images[2:])}</div>' if shown else ""
    tables = {"gates": Table("Units", ("unit", "mean z", "share of words with r < 0.5"), rows)}
    return Section("gates", "Gates (section 2.3)", body, tables, pictures)


def attention_section(translations: Sequence[TextHypothesis]) -> Section:
    """Writes which words of the source the model attends to at each word of its translation.

    Args:
        translations: list of TextHypothesis, with their attention.
    """
    pictures, images, rows = {}, [], []
    for number, best in enumerate(translations, start=1):
        drawing = pictures[f"attention_{number}"] = drawn(draw_attention(best.source_words, best.words, best.attention))
        source, target = " ".join(best.source_words), " ".join(best.words)
        images.append(picture(drawing.svg, f"Attention: {source} → {target}", f"{source} → {target}"))
        for word, weights in zip((*best.words, "(end)"), best.attention, strict=True):
            for read, weight in zip((*best.source_words, "(end)"), weights, strict=True):
                rows.append((number, word, read, round(float(weight), 5)))
    body = (
        "<p>Each row is a word of the model’s own translation, and how its attention is spread over the words of the "
        "source; a row adds up to 1.</p>"
    )
    table = Table("Weights of attention", ("sentence", "target token", "source token", "weight"), rows)
    return Section(
        "attention", "Attention", f'{body}<div class="pictures">{"".join(images)}</div>', {"attention": table}, pictures
    )


def map_section(name: str, title: str, words: str, unit: str, vectors: Vectors, points: np.ndarray) -> Section:
    """Writes a map of words or phrases, their nearest neighbours, and their vectors for TensorBoard's projector.

    Args:
        name: str. Name of the section and of its files.
        title: str. Title of the section.
        words: str. HTML that explains the vectors.
        unit: str. What the vectors stand for, such as "phrases".
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
    rounded = np.round(points.astype(float), 3).tolist()
    coordinates = [(label, x, y) for label, (x, y) in zip(vectors.names, rounded, strict=True)]
    scatter = Scatter(
        name,
        f"Map of {len(points):,} {unit} by t-SNE",
        "Distances within a neighbourhood have a meaning, the axes and distances across the map have none. A, B and C "
        "are the densest parts.",
        points,
        [vectors.names],
        unit,
        neighbours=(indices, similarities),
        regions=regions,
    )
    body = (
        f"{words}<p>Two dimensions by Barnes-Hut t-SNE. Search for a word, or click a point for its nearest neighbours "
        f"by the cosine of the {vectors.array.shape[1]} dimensions that the vectors really have.</p>"
    )
    files = {f"projector/{name}/{file}": content for file, content in projector_files(vectors).items()}
    tables = {
        f"{name}_map": Table(title, (unit, "x", "y"), coordinates),
        f"{name}_neighbours": Table(title, (unit, "rank", "neighbour", "cosine"), rows),
    }
    drawing = drawn(draw_map(points, vectors.names, boxes))
    return Section(name, title, body + scatter.to_html(), tables, {name: drawing}, files)


def projector_files(vectors: Vectors) -> dict[str, bytes]:
    """Writes the two files that TensorBoard's Embedding Projector loads: dict of file name to bytes."""
    lines = "\n".join("\t".join(f"{number:.6g}" for number in row) for row in vectors.array.tolist())
    names = "\n".join(" ".join(name.split()) or "(empty)" for name in vectors.names)
    return {"vectors.tsv": f"{lines}\n".encode(), "metadata.tsv": utf8(f"{names}\n")}
