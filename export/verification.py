"""Verification as a function: the scores of an exported model compared with those of the model it was made from."""

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
    made_pairs_of,
    model_scores,
    pairs_of_words,
    process_scores,
)
from keras_encdec.export.exporting import load_served_directory, require_tensorflow
from keras_encdec.export.saved_model import check_unchanged, read_tokenization
from keras_encdec.export.verification_options import VerificationOptions
from keras_encdec.export.versions import versions

# Pairs that the exported model scores together.
SERVED_BATCH = 64
_BACKEND_SCORES = """
import sys
sys.path[:] = sys.argv[1:]
from keras_encdec.export.backend_scores import main
main()
"""
# Nats. Backends round differently, and so does the scorer, which shares states, from the model's equations.
BACKENDS_TOLERANCE = 1e-4


@dataclasses.dataclass(frozen=True)
class VerificationReport:
    """The scores that agree.

    Attributes:
        path: pathlib.Path of the version's folder.
        comparisons: tuple of ScoreDifference: of the exported model with many pairs together, of the same with one pair
            at a time, and of each backend.
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

    The exported model runs in a process that imports TensorFlow and nothing of this package, as a server does; each of
    the backends runs in a process of its own.

    Args:
        model_dir: path of the model directory.
        export_dir: path of the folder of the exported versions.
        options: VerificationOptions. Defaults to `None`: the defaults of the command.
        pairs: list of source and target, as a client would send them.
        made_pairs: int. Number of pairs of random words of the model that are compared besides. Defaults to `None`:
            1000 where no pairs are given, else none.
        **values: options by name, which override those in `options`.

    Returns:
        VerificationReport.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used.
        InputError: when scores differ, a file of the version is not the one that was exported, or something cannot be
            read or scored; under another backend of Keras than TensorFlow.
    """
    require_tensorflow()
    options = VerificationOptions.combined(options, values)
    path = _version_folder(export_dir, options.version)
    tokenization = read_tokenization(path)
    check_unchanged(path)
    directory = load_served_directory(model_dir)
    if made_pairs is None:
        made_pairs = 0 if pairs else 1000
    texts = [*pairs, *made_pairs_of(directory, made_pairs)]
    words = pairs_of_words(texts, tokenization)
    expected = model_scores(directory, words)
    alone = texts[: len(texts) // 10 + 1]
    runs = [{"pairs": texts, "batch_size": SERVED_BATCH}, {"pairs": alone, "batch_size": 1}]
    request = {"path": os.fspath(path), "text": tokenization is not None, "runs": runs}
    remedy = "check that --model_dir is what was exported, and export it again"
    comparisons = []

    def compare(scorer, scores, tolerance=TOLERANCE):
        comparisons.append(compared(scorer, scores, expected, texts, export_dir, remedy, tolerance))

    # The script is run by its path, so that this package is not imported.
    script = [sys.executable, "-P", os.fspath(pathlib.Path(__file__).with_name("saved_model_scores.py"))]
    for scorer, scores in zip(
        ("exported", "exported, one at a time"), process_scores(script, request, path), strict=True
    ):
        compare(scorer, scores)
    for backend in options.backends:
        # With this process's path, so that it imports this very package.
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
