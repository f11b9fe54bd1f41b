"""Matrix products of PyTorch on a CPU, computed by oneDNN.

This module imports torch. Only functions that run under PyTorch import it.
"""

import contextlib
import platform
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_PRODUCTS = {torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__}


def onednn_matmul() -> contextlib.AbstractContextManager[object]:
    """Returns a context in which oneDNN computes float32 matrix products without gradients.

    PyTorch computes them with MKL, which takes twice the time on processors that Intel did not make. The context
    does nothing where PyTorch lacks the operation.
    """
    return _OneDNNProducts() if _AVAILABLE else contextlib.nullcontext()


def _available() -> bool:
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return x86 and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


_AVAILABLE = _available()


class _OneDNNProducts(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        if func in _PRODUCTS and not kwargs and _are_supported(*args):
            # The operation that torch.compile uses for a linear layer in inference; it expects the matrix transposed.
            return torch.ops.mkldnn._linear_pointwise(args[0], args[1].t(), None, "none", [], "")
        return func(*args, **(kwargs or {}))


def _are_supported(rows: object, matrix: object) -> bool:
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
