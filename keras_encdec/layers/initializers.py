"""The initial weights of the paper, and the check of the sizes that layers are made with."""

import contextlib
import contextvars
import numbers
from collections.abc import Callable, Iterator

import keras
from keras import ops

from keras_encdec.backend.operations import wide_dtype
from keras_encdec.backend.types import Tensor


def published_normal(stddev: float = 0.01) -> keras.initializers.Initializer:
    """Returns a normal distribution with mean 0, the initializer of every matrix that is not recurrent.

    Args:
        stddev: float. Standard deviation. Defaults to `0.01`.

    Returns:
        `keras.initializers.RandomNormal`.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 4.1
    """
    return keras.initializers.RandomNormal(mean=0.0, stddev=stddev)


def fresh(initializer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns a copy of an initializer, for one of several weights that it fills.

    An initializer gets its seed when it is made. Without the copy, weights of the same shape would start equal. If the
    caller chose the seed, they start equal even so.
    """
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


_is_loading = contextvars.ContextVar("_is_loading", default=False)


@contextlib.contextmanager
def weights_will_be_loaded() -> Iterator[None]:
    """Makes `LeftSingularVectors` return zeros in the `with` block, for weights that a file then replaces.

    Computing the vectors takes longer than loading the weights. `benchmarks/first_output.py` measures the benefit.
    """
    token = _is_loading.set(True)
    try:
        yield
    finally:
        _is_loading.reset(token)


@keras.saving.register_keras_serializable(package="keras_encdec")
class LeftSingularVectors(keras.initializers.Initializer):
    """Left singular vectors of a white Gaussian matrix, the initializer of the recurrent matrices.

    A matrix `(n, k * n)` consists of k square blocks, one per gate, drawn independently. Each block is an orthogonal
    matrix, so that the state neither grows nor vanishes at the start of training.

    Args:
        seed: int. Defaults to `None`: each call draws another matrix.

    Raises:
        ValueError: for a shape that is not `(n, k * n)`.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 4.1; Saxe et al., 2014 (arXiv 1312.6120)
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self._random = keras.random.SeedGenerator(seed)

    def __call__(self, shape: tuple[int, int], dtype: str | None = None) -> Tensor:
        if _is_loading.get():
            return ops.zeros(shape, dtype or "float32")
        if len(shape) != 2 or shape[1] % shape[0]:
            raise ValueError(
                f"found shape {tuple(shape)}, expected (n, k * n): LeftSingularVectors fills square blocks side by side"
            )
        rows, columns = shape
        wide = wide_dtype(dtype or "float32")  # no backend has an SVD in half precision
        blocks = []
        for _ in range(columns // rows):
            seed = self._random if self.seed is None else self.seed + len(blocks)
            white = keras.random.normal((rows, rows), dtype=wide, seed=seed)
            blocks.append(ops.svd(white, full_matrices=True)[0])
        return ops.cast(ops.concatenate(blocks, axis=1), dtype or "float32")

    def get_config(self) -> dict[str, object]:
        return {"seed": self.seed}


def checked_size(name: str, value: object, minimum: int = 1) -> int:
    """Returns a size as an int.

    Args:
        name: str. The argument's name, for the error.
        value: the argument; an int, or an integer of another library, such as NumPy.
        minimum: int. Defaults to `1`.

    Raises:
        ValueError: if it is not a whole number, or below the minimum.

    Example:

    >>> checked_size("units", 0)
    Traceback (most recent call last):
        ...
    ValueError: found units=0, expected a whole number, 1 or more
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"found {name}={value!r}, expected a whole number, {minimum} or more")
    return int(value)
