"""Attention as a section of the report."""

from collections.abc import Sequence

from keras_encdec.analysis.drawing.heat_maps import draw_attention
from keras_encdec.analysis.drawing.style import drawn
from keras_encdec.analysis.page.elements import Table, picture
from keras_encdec.analysis.page.section import Section
from keras_encdec.decoding.text_generator import TextHypothesis


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
