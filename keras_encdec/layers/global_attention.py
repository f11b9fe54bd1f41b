"""Global attention."""

from typing import Any

import keras
from keras import ops

from keras_encdec.layers.attention import Attention
from keras_encdec.layers.attention_step import AttentionStep
from keras_encdec.layers.attentions import register_attention


@register_attention("global")
@keras.saving.register_keras_serializable(package="keras_encdec")
class GlobalAttention(Attention):
    """Attention to the whole source.

        a_t = softmax over all s of score(h_t, H_s)
        c_t = sum over s of a_t(s) H_s

    Args:
        score: "dot", h_t . H_s; "general", (h_t W_a) . H_s; or "concat", tanh(h_t W_q + H_s W_k) . v_a. Defaults to
            "general".
        score_units, kernel_initializer: see `Attention`.

    Call arguments:
        queries, annotations, annotations_mask, positions, return_weights: see `Attention`.

    Returns:
        float tensor `(batch, steps, H')`; with `return_weights` the tuple of this and the weights, float32
        `(batch, steps, source_time)`.

    Example:

    >>> context, weights = GlobalAttention("dot")(ops.ones((1, 2, 3)), ops.ones((1, 4, 3)), return_weights=True)
    >>> tuple(context.shape), ops.convert_to_numpy(weights)[0, 0].tolist()
    ((1, 2, 3), [0.25, 0.25, 0.25, 0.25])

    Reference:
        - Luong et al., 2015 (arXiv 1508.04025), section 3.1
        - "concat": Bahdanau et al., 2015 (arXiv 1409.0473), appendix A.1.2
    """

    def window(self, queries: Any, mask: Any, positions: Any = None) -> tuple[Any, Any]:
        return ops.expand_dims(mask, 1), None

    @property
    def step(self) -> AttentionStep | None:
        return None if self.score == "concat" else AttentionStep()
