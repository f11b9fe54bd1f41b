"""Scores pairs with a SavedModel as a server would: a script that needs TensorFlow alone.

It reads a JSON object from standard input: `path` of the version; `runs`, a list of objects, each with `pairs` and a
`batch_size`; and `text`, whether the graph needs the operations of tensorflow-text. It writes the list of ln p of each
run, in nats, to standard output.
"""

import importlib.util
import json
import os
import sys

# From here on to import them is an error. TensorFlow, which would load Keras, does without.
sys.modules["keras"] = sys.modules["keras_encdec"] = None

import tensorflow as tf  # noqa: E402


def main() -> None:
    """Scores what standard input asks for."""
    request = json.load(sys.stdin)
    if request["text"]:
        # Its operations alone: to import it is to import Keras.
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
