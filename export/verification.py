"""The scores of an exported model held against those of the model it was made from."""

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_encdec.data import pad
from keras_encdec.errors import InputError
from keras_encdec.export.description import read_tokenization
from keras_encdec.export.exporting import load_served_directory, require_tensorflow
from keras_encdec.export.process_scores import process_scores
from keras_encdec.export.versions import versions
from keras_encdec.formats import model_words
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring.scorer import in_dtype
from keras_encdec.text import Tokenizer

# Pairs that the model computes together; few, as it has the logits of all their tokens in memory.
BATCH = 16
# Pairs that the exported model scores together.
SERVED_BATCH = 64
# Nats. Of a score so low that float32 holds no more of it, the part that follows.
TOLERANCE, PART = 1e-5, 1e-6
# Between backends, and between the model's equations and the scorer that shares states: other roundings.
BACKENDS_TOLERANCE = 1e-4


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


@dataclasses.dataclass(frozen=True)
class VerificationReport:
    """What was compared, and agrees.

    Attributes:
        path: pathlib.Path of the version's folder.
        comparisons: tuple of Comparison: of the exported model with many pairs together, with one at a time, and of
            each backend.
    """

    path: pathlib.Path
    comparisons: tuple[Comparison, ...]


def verify_export(
    model_dir: str | os.PathLike,
    export_dir: str | os.PathLike,
    version: int | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    made_pairs: int | None = None,
    backends: Sequence[str] = (),
) -> VerificationReport:
    """Compares the scores of an exported model with those of the model it was made from.

    The exported model is run in a process that has TensorFlow and nothing of this package, as a server has.

    Args:
        model_dir: path of the model directory.
        export_dir: path of the folder of the exported versions.
        version: int. The version to compare. Defaults to `None`: the newest.
        pairs: source and target as a client would send them.
        made_pairs: int. Pairs, made of the model's own words, that are compared besides. Defaults to `None`: 1000
            where no pairs are given, else none.
        backends: names of backends of Keras whose scores are compared too, "tensorflow", "jax" or "torch", each in a
            process of its own.

    Returns:
        VerificationReport.

    Raises:
        InputError: when scores differ, or something cannot be read or scored.
        RuntimeError: under another backend of Keras than TensorFlow.
    """
    require_tensorflow()
    path = _version_folder(export_dir, version)
    tokenization = read_tokenization(path)
    directory = load_served_directory(model_dir)
    if made_pairs is None:
        made_pairs = 0 if pairs else 1000
    texts = [*pairs, *_made_pairs(directory, made_pairs)]
    words = _words(texts, tokenization)
    expected = _model_scores(directory, words)
    alone = texts[: len(texts) // 10 + 1]
    runs = [{"pairs": texts, "batch_size": SERVED_BATCH}, {"pairs": alone, "batch_size": 1}]
    request = {"path": os.fspath(path), "text": tokenization is not None, "runs": runs}
    tolerance = np.maximum(TOLERANCE, PART * np.abs(expected))
    comparisons = []

    def compare(scorer, scores, tolerance):
        comparisons.append(_compared(scorer, scores, expected, texts, tolerance, export_dir))

    # By its path, so that this package is not imported.
    script = [sys.executable, "-P", os.fspath(pathlib.Path(__file__).with_name("saved_model_scores.py"))]
    for scorer, scores in zip(
        ("exported", "exported, one at a time"), process_scores(script, request, path), strict=True
    ):
        compare(scorer, scores, tolerance)
    for backend in backends:
        script = [sys.executable, "-m", "keras_encdec.export.backend_scores"]
        request = {"path": os.fspath(model_dir), "pairs": words}
        [scores] = process_scores(script, request, model_dir, KERAS_BACKEND=backend)
        compare(f"encdec-score on {backend}", scores, np.maximum(BACKENDS_TOLERANCE, 10 * PART * np.abs(expected)))
    return VerificationReport(path, tuple(comparisons))


def _version_folder(export_dir, version):
    there = versions(export_dir)
    number = version or max(there, default=0)
    if number not in there:
        listed = ", ".join(map(str, there)) or "none"
        raise InputError(
            f"found the versions {listed}", f"expected {number or 'one'} among them",
            "export one first (encdec-export)", export_dir,
        )  # fmt: skip
    return pathlib.Path(export_dir) / str(number)


def _made_pairs(directory, number):
    vocabularies = _model_order(directory, (directory.source_vocabulary, directory.target_vocabulary))
    random = np.random.default_rng(0)
    return [
        tuple(" ".join(random.choice(vocabulary.words, random.integers(1, 8))) for vocabulary in vocabularies)
        for _ in range(number)
    ]


def _words(texts, tokenization):
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


def _model_scores(directory, words):
    """ln p by the equations as they stand, in float32: float64 array `(n,)`, nats."""
    model = in_dtype(directory.model, "float32")
    read, predicted = directory.source_vocabulary, directory.target_vocabulary
    scores = []
    for start in range(0, len(words), BATCH):
        pairs = [_model_order(directory, pair) for pair in words[start : start + BATCH]]
        source, target = pad([read.encode(s) for s, _ in pairs]), pad([predicted.encode(t) for _, t in pairs])
        scores.extend(ops.convert_to_numpy(model.token_log_probs(source, target)).sum(axis=1, dtype=np.float64))
    return np.array(scores)


def _compared(scorer, scores, expected, texts, tolerance, export_dir):
    """The comparison of the scores of the first pairs."""
    expected, tolerance = expected[: len(scores)], tolerance[: len(scores)]
    differences = np.abs(scores - expected)
    worst = int((differences / tolerance).argmax())
    # Not "over", which no comparison with NaN would be.
    if not (differences <= tolerance).all():
        source, target = texts[worst]
        raise InputError(
            f"found ln p {scores[worst]:.7f} ({scorer}) of the pair {source!r}, {target!r}",
            f"expected the model's own {expected[worst]:.7f}, within {tolerance[worst]:.0e}",
            "check that --model_dir is what was exported, and export it again", export_dir,
        )  # fmt: skip
    return Comparison(scorer, len(scores), float(differences.max()))
