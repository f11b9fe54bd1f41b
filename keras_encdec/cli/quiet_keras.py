"""Imports Keras without the start-up messages of its backend; commands import this module first.

TensorFlow's first messages come before any setting can keep them back, and mean nothing to the user of
a command. Whatever else is written while Keras is imported is shown.
"""

import contextlib
import os
import re
import sys
import tempfile

_START_UP = re.compile(rb"WARNING: All log messages before absl::|[IWE]\d{4} |\d{4}-\d\d-\d\d .*(tensorflow|cuda|xla)")


@contextlib.contextmanager
def quietly():
    """Leaves out TensorFlow's start-up messages in the `with` block."""
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


def _import_quietly():
    try:
        with quietly():
            import keras

            if keras.backend.backend() == "tensorflow":
                import tensorflow as tf

                tf.config.list_physical_devices()  # looking for a GPU is one more message
    except (ImportError, ValueError) as error:
        sys.exit(
            f"{os.path.basename(sys.argv[0])}: found no usable backend of Keras ({error}), expected tensorflow, jax "
            "or torch; install it, or set KERAS_BACKEND to one that is installed."
        )


_import_quietly()
