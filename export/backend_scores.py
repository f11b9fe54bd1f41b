"""Scores pairs as `encdec-score` does, in a process of its own on the backend that KERAS_BACKEND names.

It reads a JSON object from standard input: `path` of the model directory, and `pairs` of lists of words.
It writes a list to standard output, of the one list of ln p in nats.
"""

import keras_encdec.backend.startup  # isort: skip  # noqa: F401

import json
import sys

from keras_encdec.scoring import TextScorer


def main() -> None:
    """Scores what standard input asks for."""
    request = json.load(sys.stdin)
    json.dump([TextScorer(request["path"], "float32").score(request["pairs"]).tolist()], sys.stdout)
