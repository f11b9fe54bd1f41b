"""Local attention: to a window around the target's position (local-m) or around a predicted position (local-p)."""

from typing import Any, ClassVar

import keras
from keras import ops

from keras_encdec.backend.types import Tensor
from keras_encdec.layers.attention import Attention, register_attention
from keras_encdec.layers.attention_step import AttentionStep, gaussian, last_position, local_window


class LocalAttention(Attention):
    """Base of attention to a window of the source around a position p_t.

        window   integer s with floor(p_t) - D <= s <= floor(p_t) + D and 0 <= s < S, the length of the source;
                 where floor(p_t) >= S, the window of S - 1

    Args:
        half_width: int. D. Defaults to `10`.
        **kwargs: arguments of `Attention`.

    Raises:
        ValueError: for a half width below 1.
    """

    def __init__(self, score: str = "general", half_width: int = 10, **kwargs: Any) -> None:
        super().__init__(score, **kwargs)
        if half_width < 1:
            raise ValueError(f"found half_width={half_width}, expected 1 or more")
        self.half_width = half_width

    def centers(self, queries: Tensor, last: Tensor, positions: Tensor) -> Tensor:
        """Computes p_t of each query.

        Args:
            queries: float tensor `(batch, steps, H)`.
            last: float tensor `(batch, 1)`, S - 1 of each source.
            positions: integer tensor `(batch, steps)`.

        Returns:
            float tensor `(batch, steps)`, 0 or more.
        """
        raise NotImplementedError

    def window(self, queries: Tensor, mask: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        centers = self.centers(queries, last_position(mask, self.weights_dtype), positions)
        window, offsets = local_window(ops.expand_dims(mask, 1), ops.expand_dims(centers, -1), self.half_width)
        return window, self.factor(offsets)

    def factor(self, offsets: Tensor) -> Tensor | None:
        """Computes the weights' factor from s - p_t, float tensors `(batch, steps, source_time)`; `None` for 1."""
        return None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "half_width": self.half_width}


@register_attention("local_m")
@keras.saving.register_keras_serializable(package="keras_encdec")
class LocalMonotonicAttention(LocalAttention):
    """Attention to the source positions around the position of the target word (local-m).

        p_t = t, the target position from 0
        a_t = softmax of score(h_t, H_s) over s from p_t - D to p_t + D
        c_t = sum over s of a_t(s) H_s

    For target positions beyond the end of the source, the window is around the last source position.

    Args:
        score: "dot", "general" or "concat", see `Attention`. Defaults to "general".
        half_width: int. D. Defaults to `10`.
        score_units, kernel_initializer: see `Attention`.

    Call arguments:
        queries, annotations, annotations_mask, positions, return_weights: see `Attention`.

    Returns:
        float tensor `(batch, steps, H')`; with `return_weights` a tuple of it and the weights, float32
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

    def centers(self, queries: Tensor, last: Tensor, positions: Tensor) -> Tensor:
        return ops.cast(positions, last.dtype)

    @property
    def step(self) -> AttentionStep | None:
        return None if self.score == "concat" else AttentionStep(self.half_width)


@register_attention("local_p")
@keras.saving.register_keras_serializable(package="keras_encdec")
class LocalPredictiveAttention(LocalAttention):
    """Attention to the source positions around a predicted position (local-p).

        p_t    = (S - 1) sigmoid(tanh(h_t W_p) . v_p)
        a_t(s) = softmax of score(h_t, H_s) over the window, times exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2
        c_t    = sum over s of a_t(s) H_s

    The window is s from floor(p_t) - D to floor(p_t) + D. The weights are not normalized again. p_t gets its gradient
    only from the Gaussian.

    Args:
        score: "dot", "general" or "concat", see `Attention`. Defaults to "general".
        half_width: int. D. Defaults to `10`.
        score_units, kernel_initializer: see `Attention`.

    Call arguments:
        queries, annotations, annotations_mask, positions, return_weights: see `Attention`.

    Returns:
        float tensor `(batch, steps, H')`; with `return_weights` a tuple of it and the weights, float32
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

    def centers(self, queries: Tensor, last: Tensor, positions: Tensor) -> Tensor:
        hidden = ops.tanh(ops.matmul(queries, self.position_kernel))
        share = ops.sigmoid(ops.cast(ops.squeeze(ops.matmul(hidden, self.position_vector), -1), last.dtype))
        return last * share

    def factor(self, offsets: Tensor) -> Tensor | None:
        return gaussian(offsets, self.half_width)

    def symbols(self) -> dict[str, keras.Variable]:
        return {**super().symbols(), "W_p": self.position_kernel, "v_p": self.position_vector}

    @property
    def step(self) -> AttentionStep | None:
        return None if self.score == "concat" else AttentionStep(self.half_width, predictive=True)

    @property
    def step_parameters(self) -> dict[str, keras.Variable]:
        return {"position_kernel": self.position_kernel, "position_vector": self.position_vector}
