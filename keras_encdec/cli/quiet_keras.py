"""Imports Keras without the start-up messages of its backend; commands import this module first.

TensorFlow's first messages come before any setting can keep them back, and mean nothing to the user of
a command. Whatever else is written while Keras is imported is shown.
"""

import os
import re
import sys
import tempfile

_START_UP = re.compile(rb"WARNING: All log messages before absl::|[IWE]\d{4} |\d{4}-\d\d-\d\d .*(tensorflow|cuda|xla)")


def _import_quietly():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept, problem = os.dup(2), None
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            import keras

            if keras.backend.backend() == "tensorflow":
                import tensorflow as tf

                tf.config.list_physical_devices()  # looking for a GPU is one more message
        except (ImportError, ValueError) as error:
            problem = error
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            os.write(2, b"".join(line for line in caught if not _START_UP.match(line)))
    if problem:
        sys.exit(
            f"{os.path.basename(sys.argv[0])}: found no usable backend of Keras ({problem}), expected tensorflow, jax "
            "or torch; install it, or set KERAS_BACKEND to one that is installed."
        )


_import_quietly()
