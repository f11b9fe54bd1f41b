"""How the attention of target words to source words is written, a line for each target."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

END_WORD = "</s>"


def links_line(source_words: Sequence[str], words: Sequence[str], attention: "np.ndarray") -> str:
    """Links as Moses writes them, "0-0 2-1": the source word that each target word attends to most, from 0.

    A target word that attends most to the end of the source has no link.

    Args:
        source_words, words: lists of str, of the source and of the target.
        attention: float array `(tokens, source_tokens)`, the ends of sequence counted.
    """
    most = attention[: len(words)].argmax(axis=1) if words else []
    return " ".join(f"{i}-{j}" for j, i in enumerate(most) if i < len(source_words))


def weights_line(source_words: Sequence[str], words: Sequence[str], attention: "np.ndarray") -> str:
    """A JSON object: "source" and "target", words with the ends of sequences, and "weights", a row a target word.

    Args:
        source_words, words, attention: see `links_line`.
    """
    weights = [[round(float(weight), 6) for weight in row] for row in attention]
    sides = {"source": [*source_words, END_WORD], "target": [*words, END_WORD]}
    return json.dumps({**sides, "weights": weights}, ensure_ascii=False)


ALIGNMENT_LINES = {"links": links_line, "weights": weights_line}
