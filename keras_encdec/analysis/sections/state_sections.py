"""Gates as a section of the report."""

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
    """Heat maps of phrases, and what each unit does over a corpus.

    Args:
        shown: list of PhraseGates, those to show.
        corpus: list of PhraseGates.
    """
    units = UnitGates.of(corpus)
    order = np.argsort(-units.kept, kind="stable")
    pictures = {"gates_units": drawn(draw_units(units)), "gates_values": drawn(draw_gate_values(corpus))}
    pictures |= {f"gates_{number}": drawn(draw_gates(one, order)) for number, one in enumerate(shown, start=1)}
    descriptions = [
        "How much each unit keeps and how often it resets",
        "How often the gates have each value",
        *(f"Update and reset gates over the phrase: {' '.join(one.words)}" for one in shown),
    ]
    captions = [
        "A point a unit: how much of its state it keeps at a word, and how often it resets.",
        "The values of all units at all words.",
        *(" ".join(one.words[:-1]) for one in shown),
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
        f" ends of sequence among them.{related} The gates are those of the encoder’s first layer, left to right.</p>"
    )
    body += f'<div class="pictures">{"".join(images[:2])}</div>{keeping.to_html()}{resetting.to_html()}'
    body += f'<h3>Over a phrase</h3><div class="pictures">{"".join(images[2:])}</div>' if shown else ""
    tables = {"gates": Table("Units", ("unit", "mean z", "share of words with r < 0.5"), rows)}
    return Section("gates", "Gates (section 2.3)", body, tables, pictures)


def attention_section(translations: Sequence[TextHypothesis]) -> Section:
    """Which words of the source the model looks at for each word of its translation.

    Args:
        translations: list of TextHypothesis, with their attention.
    """
    pictures, images, rows = {}, [], []
    for number, one in enumerate(translations, start=1):
        drawing = pictures[f"attention_{number}"] = drawn(draw_attention(one.source_words, one.words, one.attention))
        source, target = " ".join(one.source_words), " ".join(one.words)
        images.append(picture(drawing.svg, f"Attention: {source} → {target}", f"{source} → {target}"))
        for word, weights in zip((*one.words, "(end)"), one.attention, strict=True):
            for read, weight in zip((*one.source_words, "(end)"), weights, strict=True):
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
        name,
        f"Map of {len(points):,} {unit} by t-SNE",
        "Distances within a neighbourhood mean something, axes and distances across the map do not. A, B and C are the "
        "densest parts.",
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
