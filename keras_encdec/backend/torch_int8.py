"""Matrix products of PyTorch on a CPU, with factors rounded to 8 bits.

This module imports torch. Only functions that run under PyTorch import it.
"""

import functools
import threading
from collections.abc import Callable, Hashable
from typing import Any

import keras
import torch
from torch.overrides import TorchFunctionMode

from keras_encdec.backend.torch_products import ParameterCache

_PRODUCTS = {torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__}
# A matrix with fewer columns, such as an attention vector, stays as it is.
MIN_COLUMNS = 8
# Ranges of the rounded factors: weights are -127 to 127; rows are 1 to 255 around 128, because the operation takes
# unsigned numbers.
LARGEST, ZERO = 127, 128

_ACTIVE = threading.local()


def int8_is_active() -> bool:
    """Returns whether products in this thread are computed in 8 bits."""
    return getattr(_ACTIVE, "depth", 0) > 0


@functools.cache
def int8_is_available() -> bool:
    """Returns whether PyTorch can multiply in 8 bits here, with exact sums.

    On processors without instructions for 8 bits (VNNI, AMX), sums of two products are cut off at 16 bits.
    """
    try:
        weights = torch.full((64, 16), LARGEST, dtype=torch.int8)
        packed = _Packed(weights, torch.ones(16))
        exact = packed.product(torch.full((4, 64), 255, dtype=torch.uint8))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool((exact == 64 * LARGEST * (255 - ZERO)).all())


def _are_rows_and_a_matrix(rows: object, matrix: object) -> bool:
    return (
        isinstance(rows, torch.Tensor)
        and isinstance(matrix, torch.Tensor)
        and rows.dtype == matrix.dtype == torch.float32
        and rows.ndim >= 2
        and matrix.ndim == 2
    )


class Int8Products(TorchFunctionMode):
    """A context in which products of float32 rows and one matrix are computed in 8 bits, whichever layer computes them.

        x W = s_x s_w (round(x / s_x) round(W / s_w)),   s_x = max |x| / 127 of each row, s_w of each column

    Each row has its own scale, so that its result does not depend on the other rows. Sums are exact integers. Matrices
    that are parameters of the layer, or views of them, are rounded again only after they have changed; other matrices
    are rounded once per context. `benchmarks/attention.py --dtype=int8` (scoring) measures the benefit.

    Args:
        layer: keras.layers.Layer, whose weights are the parameters.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        super().__init__()
        self._of_parameters = ParameterCache(layer, _rounded)
        # The matrix is kept with its rounded copy, so that no other matrix can get its address.
        self._others: dict[Hashable, tuple[torch.Tensor, _Packed]] = {}

    def __enter__(self) -> "Int8Products":
        _ACTIVE.depth = getattr(_ACTIVE, "depth", 0) + 1
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        _ACTIVE.depth -= 1
        self._others.clear()

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if func in _PRODUCTS and not kwargs and _are_rows_and_a_matrix(*args) and args[1].shape[1] >= MIN_COLUMNS:
            return _product(args[0], self._packed(args[1]))
        return func(*args, **(kwargs or {}))

    def _packed(self, matrix: torch.Tensor) -> "_Packed":
        if (packed := self._of_parameters.get(matrix)) is not None:
            return packed
        key = matrix.data_ptr(), matrix.shape, matrix.stride()
        found = self._others.get(key)
        if found is None:
            self._others[key] = found = matrix, _rounded(matrix)
        return found[1]


class _Packed:
    """A matrix of 8 bits, laid out for the operation that torch.compile uses for quantized linear layers."""

    def __init__(self, weights: torch.Tensor, scales: torch.Tensor) -> None:
        self.weights = torch.ops.onednn.qlinear_prepack(weights.t().contiguous(), None)
        self.scales = scales
        self.zeros = torch.zeros(len(scales), dtype=torch.int64)

    def product(self, rows: torch.Tensor) -> torch.Tensor:
        """Multiplies rows of unsigned 8-bit numbers by the matrix; the product is float32."""
        product: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            rows, 1.0, ZERO, self.weights, self.scales, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product


def _rounded(matrix: torch.Tensor) -> _Packed:
    scales = _scales(matrix, 0)
    return _Packed((matrix / scales).round().to(torch.int8), scales.squeeze(0))


def _scales(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns the scales of 8-bit numbers along a dimension, which is kept."""
    return (tensor.abs().amax(dim, keepdim=True) / LARGEST).clamp_min(torch.finfo(torch.float32).tiny)


def rounded_to_int8(rows: torch.Tensor) -> torch.Tensor:
    """Rounds rows, or columns of a matrix given as rows, as `Int8Products` does; the result is float32."""
    scales = _scales(rows, -1)
    return (rows / scales).round_().mul_(scales)


def _product(rows: torch.Tensor, packed: _Packed) -> torch.Tensor:
    flat = rows.reshape(-1, rows.shape[-1])
    scales = _scales(flat, -1)
    rounded = (flat / scales).round_().add_(ZERO).to(torch.uint8)
    return packed.product(rounded).mul_(scales).reshape(*rows.shape[:-1], -1)
