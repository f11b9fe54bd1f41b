"""Verifies an exported model: compares its scores with those of the model that was exported."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from keras_encdec.errors import FilePath, InputError
from keras_encdec.export.client.model_server import ServerError
from keras_encdec.export.comparison import (
    ScoreDifference,
    allowed_difference,
    check_scores,
    fitting_pairs,
    is_utf8,
    model_scores,
    pairs_of_words,
    random_pairs,
)
from keras_encdec.export.exporting import load_served_directory, require_tensorflow
from keras_encdec.export.serving_config import VerificationOptions
from keras_encdec.export.stored_weights import rounded_model
from keras_encdec.export.versions import check_exported_from, check_unchanged, read_description, version_folder
from keras_encdec.runtime.files import is_url, joined
from keras_encdec.runtime.remote_folders import copied_folder
from keras_encdec.trained_model import TrainedModel

# Number of pairs that the exported model scores together.
SERVED_BATCH = 64
# A backend's tolerance is this many times the exported model's: each backend rounds differently, and the scorer shares
# states.
BACKENDS_FACTOR = 10


@dataclasses.dataclass(frozen=True)
class VerificationReport:
    """The comparisons of a verification that succeeded.

    Attributes:
        path: pathlib.Path of the version's folder; for a remote folder its URL, a str.
        comparisons: tuple of ScoreDifference, in this order: the difference that rounding makes, if the stored weights
            are rounded; the exported model with many pairs in a batch, and with one pair at a time, both compared with
            the model with the stored weights; the scorer on each backend.
    """

    path: FilePath
    comparisons: tuple[ScoreDifference, ...]


def verify_export(
    model_dir: FilePath,
    export_dir: FilePath,
    options: VerificationOptions | None = None,
    *,
    pairs: Sequence[tuple[str, str]] = (),
    made_pairs: int | None = None,
    skip_long: bool = False,
    **values: object,
) -> VerificationReport:
    """Compares the scores of an exported model with those of the model it was made from.

    The exported model runs in a process that, like a server, imports TensorFlow but not this package. Each backend runs
    in a separate process.

    Args:
        model_dir: path of the model directory.
        export_dir: path or URL of the folder of the exported versions.
        options: VerificationOptions. Defaults to `None`: the defaults of the command.
        pairs: list of source and target, as a client would send them. Defaults to none.
        made_pairs: int. Number of pairs of random words to compare in addition. Defaults to `None`: 1000 if no pairs
            are given, otherwise none.
        skip_long: bool. Whether to leave out pairs that are longer than the version accepts. Defaults to `False`: they
            are an error.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used.
        InputError: if scores differ, a file of the version has changed since the export, or the model, the version or
            a pair cannot be read or scored. Also if the backend of Keras is not TensorFlow.
    """
    require_tensorflow()
    options = VerificationOptions.combined(options, values)
    if made_pairs is None:
        made_pairs = 0 if pairs else 1000
    if not is_url(export_dir):
        return _verify(model_dir, export_dir, options, pairs, made_pairs, skip_long)
    with copied_folder(os.fspath(export_dir), lambda name: "/" not in name) as folder:
        number = version_folder(folder, options.version).name
    with copied_folder(os.fspath(export_dir), lambda name: name.startswith(f"{number}/")) as folder:
        report = _verify(model_dir, folder, options, pairs, made_pairs, skip_long)
    return dataclasses.replace(report, path=joined(export_dir, number))


def _verify(
    model_dir: FilePath,
    export_dir: str | os.PathLike[str],
    options: VerificationOptions,
    pairs: Sequence[tuple[str, str]],
    made_pairs: int,
    skip_long: bool,
) -> VerificationReport:
    """Verifies a local version, see `verify_export`."""
    path = version_folder(export_dir, options.version)
    description = read_description(path)
    tokenization = description.tokenization
    check_unchanged(path)
    check_exported_from(TrainedModel.read(model_dir), path)
    directory = load_served_directory(model_dir)
    fitting = fitting_pairs(pairs, tokenization, description.max_tokens)
    if len(fitting) < len(pairs) and not skip_long:
        source, target = next(pair for pair in pairs if not fitting_pairs([pair], tokenization, description.max_tokens))
        raise InputError(
            f"found a pair that is too long, {source[:40]!r} and {target[:40]!r}",
            f"expected at most {description.max_tokens} tokens on each side",
            "leave such pairs out, or export with a larger --max_tokens",
            path,
        )
    for source, target in fitting:
        if not (is_utf8(source) and is_utf8(target)):
            found = f"found a pair with bytes that cannot be decoded, {source[:40]!r} and {target[:40]!r}"
            encoding = "expected UTF-8, the only encoding that a served model reads"
            raise InputError(found, encoding, "leave such pairs out", path)
    texts = [*fitting, *fitting_pairs(random_pairs(directory, made_pairs), tokenization, description.max_tokens)]
    texts = texts or [("", "")]  # if every pair is longer than the version accepts
    words = pairs_of_words(texts, tokenization)
    expected = own = model_scores(directory, words)
    comparisons: list[ScoreDifference] = []
    if description.weights != "float32":
        rounded = rounded_model(directory.model, description.weights)
        expected = model_scores(dataclasses.replace(directory, model=rounded), words)
        most = float(np.abs(expected - own).max())
        comparisons.append(ScoreDifference(f"weights rounded to {description.weights}", len(own), most))
    alone = texts[: len(texts) // 10 + 1]
    runs = [{"pairs": texts, "batch_size": SERVED_BATCH}, {"pairs": alone, "batch_size": 1}]
    request = {"path": os.fspath(path), "text": tokenization is not None, "runs": runs}
    remedy = "check that --model_dir is the model that was exported, and export it again"

    def compare(scorer: str, scores: np.ndarray, expected: np.ndarray, factor: float = 1) -> None:
        tolerance = factor * allowed_difference(directory)
        comparisons.append(check_scores(scorer, scores, expected, texts, export_dir, remedy, tolerance))

    # Python runs the script by its path: `-m` would import this package.
    script = [sys.executable, "-P", os.fspath(pathlib.Path(__file__).with_name("scoring_process.py"))]
    together, one_by_one = process_scores([*script, "saved_model"], request, path)
    compare("exported", together, expected)
    compare("exported, one at a time", one_by_one, expected)
    for backend in options.backends:
        command = [*script, "model_directory", *sys.path]
        request = {"path": os.fspath(model_dir), "pairs": words}
        [scores] = process_scores(command, request, model_dir, KERAS_BACKEND=backend)
        compare(f"encdec-score on {backend}", scores, own, BACKENDS_FACTOR)
    return VerificationReport(path, tuple(comparisons))


def process_scores(
    command: Sequence[str], request: Mapping[str, object], path: str | os.PathLike[str], **environment: str
) -> list[np.ndarray]:
    """Scores in another process.

    Args:
        command: list of str. The process reads the request from standard input, and writes a list of lists of numbers
            to standard output, both in JSON.
        request: dict for JSON.
        path: the model or version that the process scores with, for the error.
        **environment: environment variables to add to those of this process.

    Returns:
        list of float64 arrays.

    Raises:
        InputError: if the process fails.
    """
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode:
        raise _reported(done, path)
    return [np.array(scores, np.float64) for scores in json.loads(done.stdout)]


def _reported(done: subprocess.CompletedProcess[str], path: str | os.PathLike[str]) -> InputError:
    """Makes an InputError with a remedy from what a failed process wrote to standard error."""
    errors = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .*|^.*assertion failed: .*", done.stderr, re.MULTILINE)
    reason = (errors or done.stderr.strip().splitlines() or ["it printed no error"])[-1]
    kind, _, sentence = reason.partition(": ")
    if kind.endswith("InputError"):
        return InputError(f"scoring failed: {sentence.rstrip('.')}", path=path)  # the sentence includes a remedy
    if done.returncode < 0:
        reason, remedy = f"signal {-done.returncode} ended its process", "free memory, and run it again"
    elif "ImportError" in reason or "ModuleNotFoundError" in reason:
        remedy = f"install the missing package for {sys.executable}"
    else:
        remedy = "give pairs within the limits, or export the model again"
    return InputError(f"found that scoring failed ({ServerError('', reason).message})", "expected scores", remedy, path)
