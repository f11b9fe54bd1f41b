"""Matrix products of PyTorch on a CPU: of factors rounded to 8 bits, or computed by oneDNN.

This module imports torch. Only functions that run under PyTorch import it.
"""

import contextlib
import functools
import platform
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import keras
import torch
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from keras_encdec.backend.devices import is_from_intel

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
        self._storages = {variable.value.untyped_storage().data_ptr() for variable in layer.variables}
        self._of_parameters: dict[Hashable, tuple[int, _Packed]] = {}
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
        key = matrix.data_ptr(), matrix.shape, matrix.stride()
        if matrix.untyped_storage().data_ptr() in self._storages and not matrix.is_inference():
            version, packed = self._of_parameters.get(key, (None, None))
            if packed is None or version != matrix._version:
                packed = _rounded(matrix)
                self._of_parameters[key] = matrix._version, packed
            return packed
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


@contextlib.contextmanager
def onednn_matmul() -> Iterator[None]:
    """A context in which oneDNN computes the float32 products of `matmul` on a CPU, and their gradients.

    PyTorch computes them with MKL, which takes up to twice the time on processors that Intel did not make. On Intel's,
    oneDNN takes 1.2 times the time of MKL on average (`benchmarks/products.py`). There, and where PyTorch lacks the
    operation, the context does nothing. Gradients of gradients are not computed.
    """
    before = getattr(_ACTIVE, "onednn", False)
    _ACTIVE.onednn = _AVAILABLE and not is_from_intel()
    try:
        yield
    finally:
        _ACTIVE.onednn = before


def onednn_is_available() -> bool:
    """Returns whether PyTorch has oneDNN, for processors with the instructions of Intel and AMD."""
    return platform.machine().lower() in ("x86_64", "amd64") and torch.backends.mkldnn.is_available()


_AVAILABLE = onednn_is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiplies matrices as `torch.matmul` does; within `onednn_matmul`, with oneDNN.

    The layers call it. A context that intercepted PyTorch's functions, as `Int8Products` does, would slow all of them,
    and PyTorch would leave it while it computes gradients.
    """
    computes = getattr(_ACTIVE, "onednn", False) and _are_rows_and_a_matrix(left, right)
    if not computes or not (left.is_cpu and right.is_cpu) or left.numel() == 0 or right.numel() == 0:
        return torch.matmul(left, right)
    needs_gradient = torch.is_grad_enabled() and (left.requires_grad or right.requires_grad)
    product: torch.Tensor = (_DifferentiableProduct.apply if needs_gradient else onednn_product)(left, right)
    return product


def onednn_product(rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Multiplies float32 rows `(..., inner)` by a matrix `(inner, columns)` with oneDNN."""
    # The operation that torch.compile uses for a linear layer in inference; it expects the matrix transposed.
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, matrix.t(), None, "none", [], "")
    return product


class _DifferentiableProduct(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(rows, matrix)
        return onednn_product(rows, matrix)

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        rows, matrix = context.saved_tensors
        rows_need_it, matrix_needs_it = context.needs_input_grad
        flat, d_flat = rows.reshape(-1, rows.shape[-1]), upstream.reshape(-1, upstream.shape[-1])
        return (
            onednn_product(upstream, matrix.t()) if rows_need_it else None,
            onednn_product(flat.t(), d_flat) if matrix_needs_it else None,
        )
