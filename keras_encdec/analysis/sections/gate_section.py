"""Gates as a section of the report."""

from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.drawing.heat_maps import draw_gate_values, draw_gates, draw_units
from keras_encdec.analysis.drawing.style import drawn
from keras_encdec.analysis.gates import PhraseGates, UnitGates
from keras_encdec.analysis.page.elements import Table, number_text, picture
from keras_encdec.analysis.page.section import Section

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
        "How much each unit keeps and how often it resets", "How often the gates have each value",
        *(f"Update and reset gates over the phrase: {' '.join(one.words)}" for one in shown),
    ]  # fmt: skip
    captions = [
        "A point a unit: how much of its state it keeps at a word, and how often it resets.",
        "The values of all units at all words.", *(" ".join(one.words[:-1]) for one in shown),
    ]  # fmt: skip
    images = [
        picture(drawing.svg, description, caption)
        for drawing, description, caption in zip(pictures.values(), descriptions, captions, strict=True)
    ]
    r = np.corrcoef(units.kept, units.resets)[0, 1] if np.ptp(units.kept) and np.ptp(units.resets) else float("nan")
    keeping, resetting = (
        Table(caption, ("unit", "mean z", "resets (%)", "lets in most at", "resets most at"), [
            (f"{unit}", f"{units.kept[unit]:.3f}", f"{100 * units.resets[unit]:.1f}",
             " · ".join(units.taken_in(unit, EXAMPLES)), " · ".join(units.reset_at(unit, EXAMPLES)))
            for unit in chosen
        ])
        for caption, chosen in (
            ("The units that keep longest", units.keep_longest(ENDS)),
            ("The units that reset most often", units.reset_most(ENDS)),
        )
    )  # fmt: skip
    rows = [(unit, round(float(kept), 5), round(float(resets), 5))
            for unit, (kept, resets) in enumerate(zip(units.kept, units.resets, strict=True))]  # fmt: skip
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
