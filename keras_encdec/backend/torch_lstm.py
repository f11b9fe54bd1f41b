"""The LSTM of PyTorch on a CPU, where oneDNN computes all steps, and all their gradients, in one operation.

This module imports torch. Only functions that run under PyTorch import it.
"""

from collections.abc import Sequence
from typing import Any

import torch

from keras_encdec.backend.torch_int8 import int8_is_active
from keras_encdec.backend.torch_products import onednn_is_available

# The operation takes the gates in the order i, f, g, o. The same exchange restores the order i, f, o, g.
_ORDER = (0, 1, 3, 2)
# Sums of the gates at a masked step: they close the input gate and open the forget gate, so that c stays as it is.
_FROZEN = (-1e6, 1e6, 0.0, 0.0)
# The operation saves the time in which this number of weights can be copied to its layout: for each step, and for each
# element of h at each step. Measured by `benchmarks/recurrence.py` with 256 to 1,000 units, and AVX-512.
_WEIGHTS_PER_STEP, _WEIGHTS_PER_ELEMENT = 50_000, 1.8


def onednn_lstm(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: Sequence[torch.Tensor],
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Computes an LSTM as `LSTMCell.run` does, if oneDNN can and is likely to be faster than step by step.

    oneDNN can compute it in float32, outside of autocast, if the padding of every sequence follows its steps. Padding
    may also precede the steps if the first state is a constant zero.

    Args:
        inputs: float tensor `(batch, time, features)`.
        hidden: float tensor `(batch, units)`: h before the first step.
        cell: float tensor `(batch, units)`: c before the first step.
        weights: W `(features, 4 * units)`, U `(units, 4 * units)` and b `(4 * units,)` of the gates i, f, o, g.
        mask: boolean tensor `(batch, time)`, false on padding. Defaults to `None`: no padding.

    Returns:
        tuple: h after every step, `(batch, time, units)`, and the last h and c, `(batch, units)`; or `None`.
    """
    if not (_has_the_right_shapes(inputs, hidden, cell, weights, mask) and _is_faster(inputs, cell)):
        return None
    if torch.is_autocast_enabled("cpu") or not all(map(_is_float32, (inputs, hidden, cell, *weights))):
        return None
    if mask is None or bool(mask.all()):
        return _lstm(inputs, hidden, cell, weights)
    steps, lengths = torch.arange(mask.shape[1]), mask.sum(1, keepdim=True)
    if torch.equal(mask, steps < lengths):
        outputs, _, last_cell = _lstm(inputs, hidden, cell, weights, mask)
        last = outputs.take_along_dim((lengths - 1).clamp_min(0)[:, :, None], 1)
        has_steps = lengths > 0
        last = torch.where(has_steps[:, :, None], last, hidden[:, None])
        return torch.where(mask[:, :, None], outputs, last), last[:, 0], torch.where(has_steps, last_cell, cell)
    if torch.equal(mask, steps >= mask.shape[1] - lengths) and _is_constant_zero(hidden) and _is_constant_zero(cell):
        return _lstm(inputs, hidden, cell, weights, mask)
    return None


def _has_the_right_shapes(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: Sequence[torch.Tensor],
    mask: torch.Tensor | None,
) -> bool:
    """Returns whether the shapes fit together. The operation does not check, and reads and writes beyond the tensors.

    Computing step by step broadcasts other shapes, or raises an error.
    """
    if inputs.ndim != 3 or cell.ndim != 2:
        return False
    (batch, time, features), units = inputs.shape, cell.shape[1]
    expected = [(batch, units)] * 2 + [(features, 4 * units), (units, 4 * units), (4 * units,)]
    fit = [tensor.shape for tensor in (hidden, cell, *weights)] == expected
    return fit and (mask is None or mask.shape == (batch, time))


def _is_faster(inputs: torch.Tensor, cell: torch.Tensor) -> bool:
    """Returns whether the operation saves more time than copying the weights to its layout takes."""
    if not (inputs.is_cpu and inputs.numel() and onednn_is_available() and torch.backends.mkldnn.enabled):
        return False
    if int8_is_active():
        return False
    (_, time, features), units = inputs.shape, cell.shape[1]
    saved = time * (_WEIGHTS_PER_STEP + _WEIGHTS_PER_ELEMENT * cell.numel())
    return units * (features + units) < saved


def _is_float32(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.float32


def _is_constant_zero(tensor: torch.Tensor) -> bool:
    return not (tensor.requires_grad or bool(tensor.any()))


def _lstm(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weights: Sequence[torch.Tensor],
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Computes h of all steps and the last h and c. At padding c stays as it is; h does not."""
    kernel, recurrent_kernel, bias = weights
    if mask is not None:  # one more feature, whose weights are `_FROZEN`: 1 on padding, where all others are 0
        on_padding = inputs.new_tensor([0.0] * inputs.shape[2] + [1.0])
        inputs = torch.where(mask[:, :, None], torch.nn.functional.pad(inputs, (0, 1)), on_padding)
    bias = bias.unflatten(0, (4, -1))[list(_ORDER)].flatten()
    parameters = [
        _Transposed.apply(kernel, mask is not None),
        _Transposed.apply(recurrent_kernel, False),
        bias,
        torch.zeros_like(bias),
    ]
    state = hidden[None].contiguous(), cell[None].contiguous()
    outputs, hidden, cell = torch.lstm(
        inputs, state, parameters, True, 1, 0.0, torch.is_grad_enabled(), bidirectional=False, batch_first=True
    )
    return outputs, hidden[0], cell[0]


class _Transposed(torch.autograd.Function):
    """Lays out the weights of all gates as the operation reads them: `(4 * units, features)`, without slow copies."""

    @staticmethod
    def forward(context: Any, matrix: torch.Tensor, with_frozen: bool) -> torch.Tensor:
        context.features = features = len(matrix)
        transposed = matrix.new_empty(4, matrix.shape[1] // 4, features + with_frozen)
        gates = matrix.chunk(4, 1)
        for position, gate in enumerate(_ORDER):
            transposed[position, :, :features] = gates[gate].t()
        if with_frozen:
            transposed[:, :, features] = matrix.new_tensor(_FROZEN)[:, None]
        return transposed.flatten(0, 1)

    @staticmethod
    def backward(context: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        gates = upstream[:, : context.features].chunk(4)
        return torch.cat([gates[gate].t() for gate in _ORDER], 1), None
