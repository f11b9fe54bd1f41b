"""Windows and weights of attention, and one step of it with a hand-written gradient."""

import math

import keras
from keras import ops

from keras_encdec.backend.types import Structure, Tensor


def last_position(mask: Tensor, dtype: str) -> Tensor:
    """S - 1, the last position of each source; 0 for a source that is all padding.

    Args:
        mask: boolean tensor `(..., source_time)`, false on padding.
        dtype: str. The dtype of the result.

    Returns:
        float tensor `(..., 1)`.
    """
    return ops.maximum(ops.sum(ops.cast(mask, dtype), axis=-1, keepdims=True) - 1, 0)


def local_window(mask: Tensor, centers: Tensor, half_width: float) -> tuple[Tensor, Tensor]:
    """The window of local attention: floor(p) - D <= s <= floor(p) + D; where floor(p) >= S, that around S - 1.

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


def gaussian(offsets: Tensor, half_width: float) -> Tensor:
    """exp(-(s - p)^2 / (2 sigma^2)), sigma = D / 2, from s - p."""
    sigma = half_width / 2
    return ops.exp(-offsets * offsets / (2 * sigma * sigma))


def masked_softmax(scores: Tensor, window: Tensor) -> Tensor:
    """The softmax of scores `(..., source_time)` over a window; 0 outside the window."""
    weights = ops.softmax(ops.where(window, scores, ops.cast(-1e9, scores.dtype)), axis=-1)
    return ops.where(window, weights, ops.zeros_like(weights))


class AttentionStep:
    """Attention weights of one step whose scores are products, with a hand-written gradient.

        a = softmax over s of q . K_s, over the window;   times exp(-(s - p)^2 / (2 sigma^2)) for local-p

    It computes "dot" and "general" scores from given keys K. As in a `RecurrentStep`, it uses no tensors or variables
    but its arguments.

    Args:
        half_width: D of local attention. Defaults to infinity: global attention.
        predictive: bool. Whether the window is around a predicted position (local-p). Defaults to `False`.
    """

    def __init__(self, half_width: float = math.inf, predictive: bool = False) -> None:
        self.half_width = half_width
        self.predictive = predictive

    def forward(
        self, queries: Tensor, parameters: dict[str, Tensor], position: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The weights.

        Args:
            queries: float tensor `(batch, H)`.
            parameters: dict of tensors: "keys" `(batch, source_time, H)`, "mask", and for local-p "position_kernel"
                and "position_vector".
            position: integer tensor `(batch, 1)`: t, for local-m.

        Returns:
            tuple: float tensor `(batch, source_time)`, and a dict of tensors for `backward`.
        """
        keys, window, saved = parameters["keys"], parameters["mask"], {}
        wide = "float64" if keras.backend.standardize_dtype(queries.dtype) == "float64" else "float32"
        if self.half_width < math.inf:
            if self.predictive:
                hidden = ops.tanh(ops.matmul(queries, parameters["position_kernel"]))
                share = ops.sigmoid(ops.cast(ops.matmul(hidden, parameters["position_vector"]), wide))
                center = last_position(window, wide) * share
                saved.update(hidden=hidden, share=share)
            else:
                center = ops.cast(position, wide)
            window, offsets = local_window(window, center, self.half_width)
        scores = ops.cast(ops.squeeze(ops.matmul(ops.expand_dims(queries, 1), ops.swapaxes(keys, 1, 2)), 1), wide)
        saved["softmax"] = softmax = masked_softmax(scores, window)
        if not self.predictive:
            return softmax, saved
        saved["offsets"] = offsets
        return softmax * gaussian(offsets, self.half_width), saved

    def backward(
        self, d_weights: Tensor, queries: Tensor, saved: dict[str, Tensor], parameters: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Structure]]:
        """The gradient of the queries, and the factors of the parameters' gradients for `parameter_gradients`."""
        softmax, factors, d_queries = saved["softmax"], {}, 0
        if self.predictive:
            offsets, share, hidden = saved["offsets"], saved["share"], saved["hidden"]
            factor, last = gaussian(offsets, self.half_width), last_position(parameters["mask"], share.dtype)
            d_center = ops.sum(d_weights * softmax * factor * offsets, axis=1, keepdims=True)
            d_center = d_center / (self.half_width / 2) ** 2
            d_share = ops.cast(d_center * last * share * (1 - share), queries.dtype)
            d_hidden = d_share * ops.transpose(parameters["position_vector"]) * (1 - hidden * hidden)
            d_queries = ops.matmul(d_hidden, ops.transpose(parameters["position_kernel"]))
            factors.update(position_kernel=(queries, d_hidden), position_vector=(hidden, d_share))
            d_weights = d_weights * factor
        d_scores = softmax * (d_weights - ops.sum(softmax * d_weights, axis=-1, keepdims=True))
        d_scores = ops.cast(d_scores, queries.dtype)
        factors["keys"] = d_scores, queries
        product = ops.matmul(ops.expand_dims(d_scores, 1), parameters["keys"])
        return d_queries + ops.squeeze(product, 1), factors
