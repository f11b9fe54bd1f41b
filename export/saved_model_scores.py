"""Scores pairs with a SavedModel as a server does: a script that imports TensorFlow and neither Keras nor this package.

It reads a JSON object from standard input: `path`, the folder of the version; `runs`, a list of objects with `pairs`
and a `batch_size`; and `text`, whether the graph needs the operations of tensorflow-text. It writes a JSON list to
standard output, with a list for each run: ln p of each pair in nats.
"""

import importlib.util
import json
import os
import sys

# `None` makes every later import of them an error. TensorFlow imports Keras only if it can.
sys.modules["keras"] = sys.modules["keras_encdec"] = None

import tensorflow as tf  # noqa: E402


def main() -> None:
    """Reads the pairs from standard input, and writes their scores to standard output."""
    request = json.load(sys.stdin)
    if request["text"]:
        # Only the operations are loaded, because tensorflow_text itself imports Keras.
        package = importlib.util.find_spec("tensorflow_text").submodule_search_locations[0]
        tf.load_op_library(os.path.join(package, "python", "ops", "_normalize_ops.so"))
    scores = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], request["path"])
        signature = loaded.signature_def["serving_default"]
        sides = [signature.inputs[side].name for side in ("source", "target")]
        score = session.make_callable(signature.outputs["log_prob"].name, sides)
        for run in request["runs"]:
            starts = range(0, len(run["pairs"]), run["batch_size"])
            batches = [run["pairs"][start : start + run["batch_size"]] for start in starts]
            scores.append([value for batch in batches for value in score(*zip(*batch, strict=True)).tolist()])
    json.dump(scores, sys.stdout)


if __name__ == "__main__":
    main()
