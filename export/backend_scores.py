"""Scores pairs as `encdec-score` does, in a separate process that runs the backend named by KERAS_BACKEND.

`verify_export` starts this process once for each backend. It sends a JSON object to standard input: `path`, the model
directory, and `pairs` of lists of words. It reads from standard output a JSON list that holds one list: ln p of each
pair in nats.
"""

import json
import sys

from keras_encdec.backend.startup import import_keras


def main() -> None:
    """Reads the pairs from standard input, and writes their scores to standard output."""
    import_keras()
    from keras_encdec.scoring import TextScorer

    request = json.load(sys.stdin)
    json.dump([TextScorer(request["path"], "float32").score(request["pairs"]).tolist()], sys.stdout)
