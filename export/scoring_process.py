"""Scores pairs in a separate process: a script that `verify_export` runs by its path.

The first argument names a function of the script. The script reads the arguments of this function from standard input,
as a JSON object, and writes a JSON list to standard output: for each run, a list of ln p of each pair in nats.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from typing import TypedDict


class Run(TypedDict):
    """Pairs of texts, and how many of them are scored together."""

    pairs: list[tuple[str, str]]
    batch_size: int


def saved_model(path: str, runs: Sequence[Run], text: bool) -> list[list[float]]:
    """Scores with a SavedModel as a server does: with TensorFlow, but with neither Keras nor this package.

    Args:
        path: str. Folder of the version.
        runs: list of Run.
        text: bool. Whether the graph needs the operations of tensorflow-text.

    Returns:
        list of lists of float: for each run, ln p of each pair in nats.

    Raises:
        ImportError: if tensorflow-text is needed and not installed.
    """
    # `None` makes every later import of them an error; typeshed does not declare it. TensorFlow imports Keras only if
    # it can.
    sys.modules["keras"] = sys.modules["keras_encdec"] = None  # type: ignore[assignment]
    import tensorflow as tf

    if text:
        # Only the operations are loaded, because tensorflow_text itself imports Keras.
        spec = importlib.util.find_spec("tensorflow_text")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("No module named 'tensorflow_text'")
        package = spec.submodule_search_locations[0]
        tf.load_op_library(os.path.join(package, "python", "ops", "_normalize_ops.so"))
    scores: list[list[float]] = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], path)
        signature = loaded.signature_def["serving_default"]
        sides = [signature.inputs[side].name for side in ("source", "target")]
        score = session.make_callable(signature.outputs["log_prob"].name, sides)
        for run in runs:
            starts = range(0, len(run["pairs"]), run["batch_size"])
            batches = [run["pairs"][start : start + run["batch_size"]] for start in starts]
            scores.append([value for batch in batches for value in score(*zip(*batch, strict=True)).tolist()])
    return scores


def model_directory(path: str, pairs: Sequence[tuple[list[str], list[str]]]) -> list[list[float]]:
    """Scores pairs of words with a model directory as `encdec-score` does, on the backend that KERAS_BACKEND names.

    Returns:
        list that holds a single list of float: ln p of each pair in nats.
    """
    from keras_encdec.backend.startup import import_keras

    import_keras()
    from keras_encdec.scoring import TextScorer

    return [TextScorer(path, "float32").score(pairs).tolist()]


def main(function: str, *import_path: str) -> None:
    """Calls a function of this module.

    With the `sys.path` of the process that started this one, the function imports the same copy of this package.
    """
    sys.path[:] = import_path or sys.path
    request = json.load(sys.stdin)
    scores = saved_model(**request) if function == "saved_model" else model_directory(**request)
    json.dump(scores, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
