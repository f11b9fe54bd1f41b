"""Scores from a process of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.export.server_error import ServerError


def process_scores(
    command: Sequence[str], request: dict[str, Any], path: str | os.PathLike, **environment: str
) -> list[np.ndarray]:
    """What a process answers to a request that is about a path.

    Args:
        command: list of str. It reads the request from standard input and writes lists of numbers, both JSON.
        request: dict.
        path: of what it scores with, for the report of a failure.
        **environment: variables that it has besides this process's.

    Returns:
        list of float64 arrays.

    Raises:
        InputError: when the process fails.
    """
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode:
        raise _reported(done, path)
    return [np.array(scores, np.float64) for scores in json.loads(done.stdout)]


def _reported(done, path):
    """The InputError of a process that failed: what it said, and what is to be done about that."""
    told = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .*|^.*assertion failed: .*", done.stderr, re.MULTILINE)
    reason = (told or done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    kind, _, sentence = reason.partition(": ")
    if kind.endswith("InputError"):
        return InputError(f"scoring failed: {sentence.rstrip('.')}", path=path)  # it says itself what to do
    if done.returncode < 0:
        reason, remedy = f"its process was ended by signal {-done.returncode}", "free memory, and run it again"
    elif "ImportError" in reason or "ModuleNotFoundError" in reason:
        remedy = f"install what is missing where {sys.executable} finds it"
    else:
        remedy = "give pairs within the limits, or export the model again"
    return InputError(
        f"found that scoring failed ({ServerError('', reason).message})", "expected scores", remedy, path
    )
