"""Scores from a process of its own."""

import json
import os
import re
import subprocess
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
        told = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .*|^.*assertion failed: .*", done.stderr, re.MULTILINE)
        reason = (told or done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        raise InputError(
            f"found that scoring failed ({ServerError('', reason).message})", "expected scores",
            "give pairs within the limits, or export the model again", path,
        )  # fmt: skip
    return [np.array(scores, np.float64) for scores in json.loads(done.stdout)]
