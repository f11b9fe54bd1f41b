"""Verifies an exported model: compares its scores with those of the model that it was made from."""

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from keras_encdec.errors import InputError
from keras_encdec.export.comparison import (
    TOLERANCE,
    ScoreDifference,
    compared,
    model_scores,
    pairs_of_words,
    process_scores,
    random_pairs,
)
from keras_encdec.export.exporting import load_served_directory, require_tensorflow
from keras_encdec.export.saved_model import check_unchanged, read_tokenization
from keras_encdec.export.serving_config import VerificationOptions
from keras_encdec.export.versions import versions

# Number of pairs that the exported model scores together.
SERVED_BATCH = 64
_BACKEND_SCORES = """
import sys
sys.path[:] = sys.argv[1:]
from keras_encdec.export.backend_scores import main
main()
"""
# In nats. It is larger than `TOLERANCE` because each backend rounds differently, and the scorer shares states.
BACKENDS_TOLERANCE = 1e-4


@dataclasses.dataclass(frozen=True)
class VerificationReport:
    """The comparisons of a verification that succeeded.

    Attributes:
        path: pathlib.Path of the version's folder.
        comparisons: tuple of ScoreDifference: for the exported model with many pairs in a batch, for the exported model
            with one pair at a time, and for each backend.
    """

    path: pathlib.Path
    comparisons: tuple[ScoreDifference, ...]


def verify_export(
    model_dir: str | os.PathLike,
    export_dir: str | os.PathLike,
    options: VerificationOptions | None = None,
    *,
    pairs: Sequence[tuple[str, str]] = (),
    made_pairs: int | None = None,
    **values: Any,
) -> VerificationReport:
    """Compares the scores of an exported model with those of the model it was made from.

    The exported model runs in a process that, like a server, imports TensorFlow but not this package. Each backend runs
    in a separate process.

    Args:
        model_dir: path of the model directory.
        export_dir: path of the folder of the exported versions.
        options: VerificationOptions. Defaults to `None`: the defaults of the command.
        pairs: list of source and target, as a client would send them. Defaults to none.
        made_pairs: int. Number of pairs of random words to compare in addition. Defaults to `None`: 1000 if no pairs
            are given, otherwise none.
        **values: options by name, which override those in `options`.

    Returns:
        VerificationReport.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used.
        InputError: when scores differ, a file of the version has changed since the export, or the model, the version or
            a pair cannot be read or scored. Also when Keras runs on another backend than TensorFlow.
    """
    require_tensorflow()
    options = VerificationOptions.combined(options, values)
    path = _version_folder(export_dir, options.version)
    tokenization = read_tokenization(path)
    check_unchanged(path)
    directory = load_served_directory(model_dir)
    if made_pairs is None:
        made_pairs = 0 if pairs else 1000
    texts = [*pairs, *random_pairs(directory, made_pairs)]
    words = pairs_of_words(texts, tokenization)
    expected = model_scores(directory, words)
    alone = texts[: len(texts) // 10 + 1]
    runs = [{"pairs": texts, "batch_size": SERVED_BATCH}, {"pairs": alone, "batch_size": 1}]
    request = {"path": os.fspath(path), "text": tokenization is not None, "runs": runs}
    remedy = "check that --model_dir is the model that was exported, and export it again"
    comparisons = []

    def compare(scorer, scores, tolerance=TOLERANCE):
        comparisons.append(compared(scorer, scores, expected, texts, export_dir, remedy, tolerance))

    # Python runs the script by its path: `-m` would import this package.
    script = [sys.executable, "-P", os.fspath(pathlib.Path(__file__).with_name("saved_model_scores.py"))]
    for scorer, scores in zip(
        ("exported", "exported, one at a time"), process_scores(script, request, path), strict=True
    ):
        compare(scorer, scores)
    for backend in options.backends:
        # With the import path of this process, so that it imports the same copy of this package.
        script = [sys.executable, "-P", "-c", _BACKEND_SCORES, *sys.path]
        request = {"path": os.fspath(model_dir), "pairs": words}
        [scores] = process_scores(script, request, model_dir, KERAS_BACKEND=backend)
        compare(f"encdec-score on {backend}", scores, BACKENDS_TOLERANCE)
    return VerificationReport(path, tuple(comparisons))


def _version_folder(export_dir, version):
    there = versions(export_dir)
    number = version or max(there, default=0)
    if number not in there:
        listed = ", ".join(map(str, there)) or "none"
        raise InputError(
            f"found the versions {listed}",
            f"expected {number or 'one'} among them",
            "export one first (encdec-export)",
            export_dir,
        )
    return pathlib.Path(export_dir) / str(number)
