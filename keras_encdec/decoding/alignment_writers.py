"""How what target words attend to is written, a line for each target."""

import json

from keras_encdec.decoding.text_generator import TextHypothesis

END_WORD = "</s>"


def links_line(hypothesis: TextHypothesis) -> str:
    """Links as Moses writes them, "0-0 2-1": the source word that each target word attends to most, from 0.

    A target word that attends most to the end of the source has no link.
    """
    words, source_words = len(hypothesis.words), len(hypothesis.source_words)
    most = hypothesis.attention[:words].argmax(axis=1) if words else []
    return " ".join(f"{i}-{j}" for j, i in enumerate(most) if i < source_words)


def weights_line(hypothesis: TextHypothesis) -> str:
    """A JSON object: "source" and "target", words with the ends of sequences, and "weights", a row a target word."""
    weights = [[round(float(weight), 6) for weight in row] for row in hypothesis.attention]
    sides = {"source": [*hypothesis.source_words, END_WORD], "target": [*hypothesis.words, END_WORD]}
    return json.dumps({**sides, "weights": weights}, ensure_ascii=False)


ALIGNMENT_WRITERS = {"links": links_line, "weights": weights_line}
