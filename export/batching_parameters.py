"""`batching_parameters.txt`, by which TensorFlow Serving merges requests."""

import os
import pathlib

from keras_encdec.formats import open_output

BATCHING_PARAMETERS = "batching_parameters.txt"
# The largest is the largest batch, as the server demands.
BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def write_batching_parameters(export_dir: str | os.PathLike) -> None:
    """Writes how the server merges requests, unless such a file is there: its numbers are the user's to set."""
    path = pathlib.Path(export_dir) / BATCHING_PARAMETERS
    if path.exists():
        return
    sizes = "".join(f"allowed_batch_sizes: {size}\n" for size in BATCH_SIZES)
    text = f"""# For tensorflow_model_server --enable_batching --batching_parameters_file=.../{BATCHING_PARAMETERS}
# Pairs in a batch: a request of more is refused. The last allowed size must be the same.
max_batch_size {{ value: {BATCH_SIZES[-1]} }}
{sizes}# How long a request waits for others, in microseconds.
batch_timeout_micros {{ value: 1000 }}
# As many as the server has cores: here those of the machine that exported.
num_batch_threads {{ value: {os.cpu_count()} }}
# Further requests are UNAVAILABLE.
max_enqueued_batches {{ value: 1000 }}
"""
    with open_output(path) as file:
        file.write(text.encode())
