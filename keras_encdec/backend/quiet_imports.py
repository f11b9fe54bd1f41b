"""Imports without start-up messages."""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_START_UP = re.compile(rb"WARNING: All log messages before absl::|[IWE]\d{4} |\d{4}-\d\d-\d\d .*(tensorflow|cuda|xla)")


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppresses TensorFlow's start-up messages in the `with` block; other messages are shown when it ends."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            os.write(2, b"".join(line for line in caught if not _START_UP.match(line)))
