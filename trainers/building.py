"""One model is made at a time, as all draw their initial weights from the generators of the process."""

import contextlib
import threading
from collections.abc import Iterator

import keras

_LOCK = threading.RLock()


@contextlib.contextmanager
def building(seed: int | None = None) -> Iterator[None]:
    """Keeps other trainings in this process from making a model while the block does.

    Args:
        seed: int. Seed of all generators of the process, set first. Optional.
    """
    with _LOCK:
        if seed is not None:
            keras.utils.set_random_seed(seed)
        yield
