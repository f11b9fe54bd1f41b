"""PyTorch's matrix products on a CPU, computed by oneDNN."""

import contextlib
import platform

import torch
from torch.overrides import TorchFunctionMode

_PRODUCTS = {torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__}


def onednn_matmul() -> contextlib.AbstractContextManager:
    """A context in which products with a float32 matrix, that no gradient is asked of, are oneDNN's.

    PyTorch leaves them to MKL, which takes twice the time on processors that are not Intel's. Where PyTorch
    has no such operation, it does nothing.
    """
    return _OneDNNProducts() if _AVAILABLE else contextlib.nullcontext()


def _available():
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return x86 and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


_AVAILABLE = _available()


class _OneDNNProducts(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _PRODUCTS and not kwargs and _suit(*args):
            # What torch.compile makes of a linear layer for inference; it takes the matrix transposed.
            return torch.ops.mkldnn._linear_pointwise(args[0], args[1].t(), None, "none", [], "")
        return func(*args, **(kwargs or {}))


def _suit(rows, matrix):
    return (
        isinstance(rows, torch.Tensor)
        and isinstance(matrix, torch.Tensor)
        and rows.dtype == matrix.dtype == torch.float32
        and rows.is_cpu
        and matrix.is_cpu
        and rows.ndim >= 2
        and matrix.ndim == 2
        and rows.numel() > 0
        and matrix.numel() > 0
        and torch.is_inference_mode_enabled()
    )
