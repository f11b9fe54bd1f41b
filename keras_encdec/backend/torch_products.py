"""Matrix products of PyTorch on a CPU: of factors rounded to 8 bits, or computed by oneDNN, with packed weights.

This module imports torch. Only functions that run under PyTorch import it.
"""

import contextlib
import functools
import platform
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

import keras
import torch
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from keras_encdec.backend.devices import is_from_intel

Result = TypeVar("Result")

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


class ParameterCache(Generic[Result]):
    """Keeps what is computed from the matrices of a layer, until they change.

    Args:
        layer: keras.layers.Layer, whose variables or views of them are the matrices.
        compute: function of a matrix.
    """

    def __init__(self, layer: keras.layers.Layer, compute: Callable[[torch.Tensor], Result]) -> None:
        self._storages = {variable.value.untyped_storage().data_ptr() for variable in layer.variables}
        self._compute = compute
        # The matrix is kept with its result, so that no other matrix can get its address.
        self._results: dict[Hashable, tuple[torch.Tensor, int, Result]] = {}

    def get(self, matrix: torch.Tensor) -> Result | None:
        """Returns the result for a matrix; `None` if it is not one of the layer."""
        key = matrix.data_ptr(), matrix.shape, matrix.stride()
        found = self._results.get(key)
        if found is None and (matrix.is_inference() or matrix.untyped_storage().data_ptr() not in self._storages):
            return None
        if found is None or found[1] != matrix._version:
            self._results[key] = found = matrix, matrix._version, self._compute(matrix)
        return found[2]


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


@contextlib.contextmanager
def onednn_matmul(packed: "PackedMatrices | None" = None) -> Iterator[None]:
    """A context in which oneDNN computes the float32 products of `matmul` on a CPU, and their gradients.

    PyTorch computes them with MKL, which takes up to twice the time on processors that Intel did not make. On Intel's,
    oneDNN takes 1.2 times the time of MKL on average (`benchmarks/products.py`), so MKL computes them there, and where
    PyTorch lacks the operation. Gradients of gradients are not computed.

    Args:
        packed: PackedMatrices for float32 where oneDNN computes it, and for bfloat16. They are used while no gradients
            are recorded. Defaults to `None`: none are packed.
    """
    before = getattr(_ACTIVE, "onednn", False), getattr(_ACTIVE, "packed", None)
    _ACTIVE.onednn, _ACTIVE.packed = _AVAILABLE and not is_from_intel(), packed
    try:
        yield
    finally:
        _ACTIVE.onednn, _ACTIVE.packed = before


def onednn_is_available() -> bool:
    """Returns whether PyTorch has oneDNN, for processors with the instructions of Intel and AMD."""
    return platform.machine().lower() in ("x86_64", "amd64") and torch.backends.mkldnn.is_available()


_AVAILABLE = onednn_is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class PackedMatrices(ParameterCache[torch.Tensor]):
    """The matrices of a layer, packed in the order in which oneDNN reads them.

    Otherwise oneDNN packs a matrix for each product, which doubles the time of a product of a few rows
    (`benchmarks/products.py`). The sums are the same. The packed matrices take as much memory as the weights.

    Args:
        layer: keras.layers.Layer.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        super().__init__(layer, packed_matrix)

    def get(self, matrix: torch.Tensor) -> torch.Tensor | None:
        """Returns the packed matrix; `None` if it is not one of the layer, or of a dtype that gains nothing."""
        return super().get(matrix) if matrix.is_cpu and _gains_by_packing(matrix.dtype) else None


def _gains_by_packing(dtype: torch.dtype) -> bool:
    # In bfloat16, oneDNN computes PyTorch's products on the processors of Intel, too.
    computes = _AVAILABLE and (dtype == torch.bfloat16 or (dtype == torch.float32 and not is_from_intel()))
    return computes and can_pack(dtype)


@functools.cache
def can_pack(dtype: torch.dtype) -> bool:
    """Returns whether PyTorch has the operation, and the processor the instructions for the dtype."""
    try:
        rows, matrix = torch.ones(8, 16, dtype=dtype), torch.ones(16, 8, dtype=dtype)
        return bool((packed_product(rows, packed_matrix(matrix)) == 16).all())
    except (AttributeError, NotImplementedError, RuntimeError):
        return False


# Number of rows for which a matrix is packed; it multiplies any number of rows. For a single row, oneDNN would choose
# another order, which suits no other number.
_PACKED_FOR = 64


def packed_matrix(matrix: torch.Tensor) -> torch.Tensor:
    """Packs a matrix `(inner, columns)`."""
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix.t().contiguous(), _PACKED_FOR)
    return packed


def packed_product(rows: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    """Multiplies rows `(..., inner)` by what `packed_matrix` returned for a matrix `(inner, columns)`."""
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], "")
    return product


def product_with(matrix: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns the function from rows to their product with a matrix, which is packed if that pays for many products."""
    if getattr(_ACTIVE, "packed", None) is None or not matrix.is_cpu or not _gains_by_packing(matrix.dtype):
        return lambda rows: matmul(rows, matrix)
    return functools.partial(packed_product, packed=packed_matrix(matrix))


def matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiplies matrices as `torch.matmul` does; within `onednn_matmul`, with oneDNN.

    The layers call it. A context that intercepted PyTorch's functions, as `Int8Products` does, would slow all of them,
    and PyTorch would leave it while it computes gradients.
    """
    matrices: PackedMatrices | None = getattr(_ACTIVE, "packed", None)
    if matrices is not None and right.ndim == 2 and left.ndim >= 2 and left.numel() and left.dtype == right.dtype:
        packed = None if torch.is_grad_enabled() else matrices.get(right)
        if packed is not None:
            return packed_product(left, packed)
    computes = getattr(_ACTIVE, "onednn", False) and left.dtype == right.dtype == torch.float32
    if not computes or not (left.is_cpu and right.is_cpu) or left.numel() == 0 or right.numel() == 0:
        return torch.matmul(left, right)
    needs_gradient = torch.is_grad_enabled() and (left.requires_grad or right.requires_grad)
    if left.ndim >= 2 and right.ndim == 2:
        return _DifferentiableProduct.apply(left, right) if needs_gradient else onednn_product(left, right)
    if left.ndim == right.ndim == 3 and not needs_gradient and len(left) == len(right) and _are_large(left, right):
        return torch.stack([onednn_product(*factors) for factors in zip(left, right, strict=True)])
    return torch.matmul(left, right)


# oneDNN multiplies the matrices of two stacks one by one if each product has this number of multiplications or more.
# It halves the time of large products. Many small ones are faster together.
_LARGE = 1 << 22


def _are_large(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left[0].numel() * right.shape[-1] >= _LARGE


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
