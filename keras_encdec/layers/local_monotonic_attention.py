"""Local attention that moves along the source at the pace of the target."""

from typing import Any, ClassVar

import keras
from keras import ops

from keras_encdec.layers.attention_step import AttentionStep
from keras_encdec.layers.attentions import register_attention
from keras_encdec.layers.local_attention import LocalAttention


@register_attention("local_m")
@keras.saving.register_keras_serializable(package="keras_encdec")
class LocalMonotonicAttention(LocalAttention):
    """Attention to the source positions around that of the target word (local-m).

        p_t = t, the target position from 0
        a_t = softmax of score(h_t, H_s) over s from p_t - D to p_t + D
        c_t = sum over s of a_t(s) H_s

    Where the target is longer than the source, the window is that of its last position.

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

    >>> queries, annotations = ops.ones((1, 2, 3)), ops.ones((1, 4, 3))
    >>> _, weights = LocalMonotonicAttention("dot", half_width=1)(queries, annotations, return_weights=True)
    >>> ops.convert_to_numpy(weights)[0, 0].tolist()
    [0.5, 0.5, 0.0, 0.0]

    Reference:
        - Luong et al., 2015 (arXiv 1508.04025), section 3.2
    """

    needs_positions: ClassVar[bool] = True

    def centers(self, queries: Any, last: Any, positions: Any) -> Any:
        return ops.cast(positions, last.dtype)

    @property
    def step(self) -> AttentionStep | None:
        return None if self.score == "concat" else AttentionStep(self.half_width)
