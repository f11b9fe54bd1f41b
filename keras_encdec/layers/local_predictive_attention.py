"""Local attention that predicts where in the source to look."""

from typing import Any

import keras
from keras import ops

from keras_encdec.layers.attention_step import AttentionStep
from keras_encdec.layers.attention_window import gaussian
from keras_encdec.layers.attentions import register_attention
from keras_encdec.layers.local_attention import LocalAttention


@register_attention("local_p")
@keras.saving.register_keras_serializable(package="keras_encdec")
class LocalPredictiveAttention(LocalAttention):
    """Attention to the source positions around one that is predicted (local-p).

        p_t    = (S - 1) sigmoid(tanh(h_t W_p) . v_p)
        a_t(s) = softmax of score(h_t, H_s) over the window, times exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2
        c_t    = sum over s of a_t(s) H_s

    The window is s from floor(p_t) - D to floor(p_t) + D. The weights are not normalized again; through the Gaussian
    alone p_t is learned.

    Args:
        score: "dot", "general" or "concat", see `Attention`. Defaults to "general".
        half_width: int. D. Defaults to `10`.
        score_units, kernel_initializer: see `Attention`.

    Call arguments:
        queries, annotations, annotations_mask, positions, return_weights: see `Attention`.

    Returns:
        float tensor `(batch, steps, H')`; with `return_weights` the tuple of this and the weights, float32
        `(batch, steps, source_time)`.

    Example:

    >>> tuple(LocalPredictiveAttention(half_width=2)(ops.ones((1, 2, 3)), ops.ones((1, 9, 4))).shape)
    (1, 2, 4)

    Reference:
        - Luong et al., 2015 (arXiv 1508.04025), section 3.2, equations 9 and 10
    """

    def build(self, queries_shape: tuple, annotations_shape: tuple) -> None:
        width, initializer = queries_shape[-1], self.kernel_initializer
        self.position_kernel = self.add_weight(shape=(width, width), initializer=initializer, name="position_kernel")
        self.position_vector = self.add_weight(shape=(width, 1), initializer=initializer, name="position_vector")
        super().build(queries_shape, annotations_shape)

    def centers(self, queries: Any, last: Any, positions: Any) -> Any:
        hidden = ops.tanh(ops.matmul(queries, self.position_kernel))
        share = ops.sigmoid(ops.cast(ops.squeeze(ops.matmul(hidden, self.position_vector), -1), last.dtype))
        return last * share

    def factor(self, offsets: Any) -> Any:
        return gaussian(offsets, self.half_width)

    def symbols(self) -> dict[str, Any]:
        return {**super().symbols(), "W_p": self.position_kernel, "v_p": self.position_vector}

    @property
    def step(self) -> AttentionStep | None:
        return None if self.score == "concat" else AttentionStep(self.half_width, predictive=True)

    @property
    def step_parameters(self) -> dict[str, Any]:
        return {"position_kernel": self.position_kernel, "position_vector": self.position_vector}
