"""Scores held against those of the model itself."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_encdec.data import pad
from keras_encdec.errors import InputError
from keras_encdec.formats import model_words
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models.model_in_dtype import model_in_dtype
from keras_encdec.text import Tokenizer

# Pairs that the model computes together; few, as it has the logits of all their tokens in memory.
BATCH = 16
# Nats.
TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Scores that agree with the model's own.

    Attributes:
        scorer: str. What gave them, such as "exported".
        pairs: int. Number of pairs.
        largest_difference: float. Nats.
    """

    scorer: str
    pairs: int
    largest_difference: float

    def __str__(self) -> str:
        return f"{self.scorer}: {self.pairs:,} pairs, largest difference {self.largest_difference:.1e} nats"


def made_pairs_of(directory: ModelDirectory, number: int) -> list[tuple[str, str]]:
    """Pairs made of a model's own words, as far as UTF-8 has them: source and target, the user's."""
    vocabularies = _model_order(directory, (directory.source_vocabulary, directory.target_vocabulary))
    sides = [[word for word in vocabulary.words if _is_utf8(word)] for vocabulary in vocabularies]
    random = np.random.default_rng(0)
    return [
        tuple(" ".join(random.choice(words, random.integers(1, 8)) if words else ()) for words in sides)
        for _ in range(number)
    ]


def pairs_of_words(
    texts: Sequence[tuple[str, str]], tokenization: dict[str, Any] | None
) -> list[tuple[list[str], list[str]]]:
    """Pairs of lists of words, as the exported model reads the texts: as tokens perhaps, of a model of raw text."""
    sides = [side for pair in texts for side in pair]
    if tokenization is None:
        words = [model_words(side, factored=False) for side in sides]
    else:
        words = Tokenizer(**tokenization).words(sides)
    return list(zip(words[::2], words[1::2], strict=True))


def _model_order(directory: ModelDirectory, sides: tuple[Any, Any]) -> tuple[Any, Any]:
    """The user's source and target to the model's own, and back."""
    return sides[::-1] if directory.reverse else sides


def model_scores(directory: ModelDirectory, words: Sequence[tuple[list[str], list[str]]]) -> np.ndarray:
    """ln p by the equations as they stand, in float32: float64 array `(n,)`, nats."""
    model = model_in_dtype(directory.model, "float32")
    read, predicted = directory.source_vocabulary, directory.target_vocabulary
    scores = []
    for start in range(0, len(words), BATCH):
        pairs = [_model_order(directory, pair) for pair in words[start : start + BATCH]]
        source, target = pad([read.encode(s) for s, _ in pairs]), pad([predicted.encode(t) for _, t in pairs])
        scores.extend(ops.convert_to_numpy(model.token_log_probs(source, target)).sum(axis=1, dtype=np.float64))
    return np.array(scores)


def compared(
    scorer: str,
    scores: np.ndarray,
    expected: np.ndarray,
    texts: Sequence[tuple[str, str]],
    export_dir: str | os.PathLike[str],
    remedy: str,
    tolerance: float = TOLERANCE,
) -> Comparison:
    """The comparison of the scores of the first pairs with what is expected.

    Args:
        scorer: str. What gave the scores.
        scores, expected: float arrays, nats.
        texts: the pairs, for the report.
        export_dir: for the report.
        remedy: str. What is to be done where they differ.
        tolerance: float. Nats; of a score so low that float32 holds no more of it, a tenth of that part of it.

    Raises:
        InputError: where a score differs by more.
    """
    expected = expected[: len(scores)]
    allowed = tolerance * np.maximum(1, np.abs(expected) / 10)
    differences = np.abs(scores - expected)
    worst = int((differences / allowed).argmax())
    # Not "over", which no comparison with NaN would be.
    if not (differences <= allowed).all():
        source, target = texts[worst]
        raise InputError(
            f"found ln p {scores[worst]:.7f} ({scorer}) of the pair {source!r}, {target!r}",
            f"expected the model's own {expected[worst]:.7f}, within {allowed[worst]:.0e}", remedy, export_dir,
        )  # fmt: skip
    return Comparison(scorer, len(scores), float(differences.max()))


def _is_utf8(word):
    return word.encode("utf-8", "ignore").decode() == word
