"""How the attention of target words to source words is written, a line for each target."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from keras_encdec.configuration import ConfigurationError
from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.files import STANDARD_STREAM

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


def alignment_line(
    alignments: FilePath | None, alignment_format: str | None, output: FilePath
) -> "Callable[[Sequence[str], Sequence[str], np.ndarray], str] | None":
    """The function that makes the lines of a file of alignments.

    Args:
        alignments: the file; `None` where none is written.
        alignment_format: str. One of `ALIGNMENT_LINES`. Defaults to `None`: "links".
        output: the file of what is aligned.

    Returns:
        such as `links_line`; `None` where no file is written.

    Raises:
        ConfigurationError: a ValueError, for another format, or one without a file; and when both files are the
            standard output.
    """
    if alignments == output == STANDARD_STREAM:
        raise ConfigurationError("found {alignments}=- with {output}=-, expected a file for one of them")
    if alignment_format and not alignments:
        raise ConfigurationError("found {alignment_format} without {alignments}, the file to write")
    if alignment_format is not None and alignment_format not in ALIGNMENT_LINES:
        raise ConfigurationError(
            "found {alignment_format}=%s, expected one of %s", alignment_format, ", ".join(ALIGNMENT_LINES)
        )
    return ALIGNMENT_LINES[alignment_format or "links"] if alignments else None


def check_carries_attention(alignments: FilePath | None, carries_attention: bool) -> None:
    """Raises ConfigurationError where alignments are asked for of a model that has no attention."""
    if alignments and not carries_attention:
        raise ConfigurationError("found {alignments} with a model that has no attention; train one with attention")
