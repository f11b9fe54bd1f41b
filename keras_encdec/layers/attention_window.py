"""Where attention looks, and how its scores become weights: for all steps of a decoder, or for one."""

from typing import Any

from keras import ops


def last_position(mask: Any, dtype: str) -> Any:
    """S - 1 of each source, 0 of one that is all padding.

    Args:
        mask: boolean tensor `(..., source_time)`, false on padding.
        dtype: str, of the result.

    Returns:
        float tensor `(..., 1)`.
    """
    return ops.maximum(ops.sum(ops.cast(mask, dtype), axis=-1, keepdims=True) - 1, 0)


def local_window(mask: Any, centers: Any, half_width: int) -> tuple[Any, Any]:
    """The positions s with floor(p) - D <= s <= floor(p) + D; where floor(p) >= S, those around S - 1.

    Args:
        mask: boolean tensor `(..., source_time)`, false on padding.
        centers: float tensor that broadcasts to `(..., 1)`: p.
        half_width: int. D.

    Returns:
        tuple: boolean tensor `(..., source_time)`, and s - p, float tensor of that shape.
    """
    positions = ops.arange(ops.shape(mask)[-1], dtype=centers.dtype)
    middle = ops.minimum(ops.floor(centers), last_position(mask, centers.dtype))
    return ops.logical_and(mask, ops.absolute(positions - middle) <= half_width), positions - centers


def gaussian(offsets: Any, half_width: int) -> Any:
    """exp(-(s - p)^2 / (2 sigma^2)), sigma = D / 2, from s - p."""
    sigma = half_width / 2
    return ops.exp(-offsets * offsets / (2 * sigma * sigma))


def masked_softmax(scores: Any, window: Any) -> Any:
    """The softmax of scores `(..., source_time)` over a window; 0 outside, and everywhere where it is empty."""
    weights = ops.softmax(ops.where(window, scores, ops.cast(-1e9, scores.dtype)), axis=-1)
    return ops.where(window, weights, ops.zeros_like(weights))
