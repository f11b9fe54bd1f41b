"""Matrix products of PyTorch on a CPU, with packed weights, and tanh, which oneDNN computes.

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

from keras_encdec.backend.devices import is_from_intel

Result = TypeVar("Result")

_ACTIVE = threading.local()


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


@contextlib.contextmanager
def onednn_matmul(packed: "PackedMatrices | None" = None) -> Iterator[None]:
    """A context in which oneDNN computes the float32 products of `matmul`, and `tanh`, on a CPU, and their gradients.

    PyTorch computes them with MKL, which takes up to twice the time for products, and five times for tanh, on
    processors that Intel did not make. On Intel's, oneDNN takes 1.2 times the time of MKL for a product on average
    (`benchmarks/products.py`), so MKL computes them there, and where PyTorch lacks the operation. Gradients of
    gradients are not computed.

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


def packed_product(rows: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiplies rows `(..., inner)` by what `packed_matrix` returned for a matrix, and adds a bias."""
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return product


def product_with(matrix: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns the function from rows to their product with a matrix, which is packed if that pays for many products."""
    if getattr(_ACTIVE, "packed", None) is None or not matrix.is_cpu or not _gains_by_packing(matrix.dtype):
        return lambda rows: matmul(rows, matrix)
    return functools.partial(packed_product, packed=packed_matrix(matrix))


def matmul(left: torch.Tensor, right: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiplies matrices as `torch.matmul` does, and adds a bias to each row; within `onednn_matmul`, with oneDNN.

    The layers call it. A context that intercepted PyTorch's functions, as `Int8Products` does, would slow all of them,
    and PyTorch would leave it while it computes gradients.
    """
    factors = (left, right) if bias is None else (left, right, bias)
    needs_gradient = torch.is_grad_enabled() and any(factor.requires_grad for factor in factors)
    computes = getattr(_ACTIVE, "onednn", False) and left.is_cpu and left.dtype == right.dtype == torch.float32
    is_one_matrix = right.ndim == 2 and left.ndim >= 2 and left.numel() > 0 and right.numel() > 0
    if is_one_matrix and all(factor.is_cpu and factor.dtype == left.dtype for factor in factors):
        matrices: PackedMatrices | None = getattr(_ACTIVE, "packed", None)
        packed = None if matrices is None or torch.is_grad_enabled() else matrices.get(right)
        if packed is not None:
            return packed_product(left, packed, bias)
        if computes:
            return _DifferentiableProduct.apply(*factors) if needs_gradient else onednn_product(*factors)
    if computes and not needs_gradient and _are_large_stacks(left, right):
        products = [onednn_product(*matrices) for matrices in zip(left, right, strict=True)]
        product = torch.stack(products) if len(products) > 1 else products[0][None]
    else:
        product = torch.matmul(left, right)
    if bias is None:
        return product
    # A sum may be large: it is written to another tensor only if it must be.
    return product + bias if needs_gradient or product.dtype != bias.dtype else product.add_(bias)


# oneDNN multiplies the matrices of two stacks one by one if each product has this number of multiplications or more.
# It halves the time of large products. Many small ones are faster together.
_LARGE = 1 << 22


def _are_large_stacks(left: torch.Tensor, right: torch.Tensor) -> bool:
    are_stacks = left.ndim == right.ndim == 3 and len(left) == len(right)
    return are_stacks and left.shape[1:].numel() * right.shape[-1] >= _LARGE


def onednn_product(rows: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiplies float32 rows `(..., inner)` by a matrix `(inner, columns)` with oneDNN, and adds a bias."""
    # The operation that torch.compile uses for a linear layer in inference; it expects the matrix transposed.
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, matrix.t(), bias, "none", [], "")
    return product


class _DifferentiableProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, rows: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        context.save_for_backward(rows, matrix)
        return onednn_product(rows, matrix, bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, matrix = context.saved_tensors
        needed = context.needs_input_grad
        flat, d_flat = rows.reshape(-1, rows.shape[-1]), upstream.reshape(-1, upstream.shape[-1])
        gradients = (
            onednn_product(upstream, matrix.t()) if needed[0] else None,
            _product_of_columns(flat, d_flat) if needed[1] else None,
            d_flat.sum(0) if len(needed) > 2 and needed[2] else None,
        )
        return gradients[: len(needed)]


def _product_of_columns(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Computes left^T right from `(n, inner)` and `(n, columns)`. oneDNN copies the first factor in another order."""
    if right.shape[1] < left.shape[1] // 8:
        return onednn_product(right.t(), left).t().contiguous()
    return onednn_product(left.t(), right)


# Number of elements from which the tanh of oneDNN is faster, although it copies them.
_MANY = 1 << 15


def tanh(tensor: torch.Tensor) -> torch.Tensor:
    """Computes tanh as `torch.tanh` does; within `onednn_matmul`, with oneDNN, to within an ulp."""
    is_many = tensor.is_cpu and tensor.numel() >= _MANY
    if not is_many or not getattr(_ACTIVE, "onednn", False) or not _computes_tanh(tensor.dtype):
        return torch.tanh(tensor)
    if tensor.requires_grad and torch.is_grad_enabled():
        result: torch.Tensor = _DifferentiableTanh.apply(tensor)
        return result
    return onednn_tanh(tensor)


@functools.cache
def _computes_tanh(dtype: torch.dtype) -> bool:
    """Returns whether oneDNN computes tanh of a dtype on this processor; bfloat16 needs some of its instructions."""
    try:
        return not onednn_tanh(torch.zeros(1, dtype=dtype)).any()
    except RuntimeError:
        return False


def onednn_tanh(tensor: torch.Tensor) -> torch.Tensor:
    """Computes tanh of a float32 or bfloat16 tensor with oneDNN."""
    return torch.tanh(tensor.to_mkldnn()).to_dense()


class _DifferentiableTanh(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tensor: torch.Tensor) -> torch.Tensor:
        output = onednn_tanh(tensor)
        context.save_for_backward(output)
        return output

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: torch.Tensor) -> torch.Tensor:
        [output] = context.saved_tensors
        gradient: torch.Tensor = torch.ops.aten.tanh_backward(upstream, output)
        return gradient
