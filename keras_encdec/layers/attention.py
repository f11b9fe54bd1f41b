"""Attention to the positions of a source: the base class, the registry of its kinds, global and local attention."""

from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import ops

from keras_encdec.architectures.configurations import ATTENTIONS
from keras_encdec.backend.operations import matmul, tanh, wide_dtype
from keras_encdec.backend.types import Shape, Tensor
from keras_encdec.errors import not_defined
from keras_encdec.layers.attention_step import (
    SCORES,
    AttentionStep,
    gaussian,
    last_position,
    local_window,
    masked_softmax,
)
from keras_encdec.layers.initializers import checked_size, fresh


class Attention(keras.layers.Layer):
    """Base of attention: an average of a source's annotations, with new weights at each step of a decoder.

        scores     dot        h_t . H_s
                   general    (h_t W_a) . H_s
                   concat     tanh(h_t W_q + H_s W_k) . v_a
        a_t        = softmax over s of the scores, over the source positions in the `window`
        c_t        = sum over s of a_t(s) H_s

    The weights a_t are float32 (float64 in a float64 layer) whatever the dtype policy, and 0 on padding.

    A decoder that goes step by step computes the keys once per source, and the weights at each step:

        keys = attention.keys(annotations)
        weights = attention.attention_weights(queries, keys, mask, positions)

    A new kind of attention is a subclass that defines `window`, registered with `register_attention`.

    Args:
        score: "dot", "general" or "concat". Defaults to "general".
        score_units: int. Width of W_q and W_k, with "concat". Defaults to `None`: that of the queries.
        kernel_initializer: initializer of all weights. Defaults to Glorot's uniform distribution.

    Call arguments:
        queries: float tensor `(batch, steps, H)`, h_t: states of a decoder.
        annotations: float tensor `(batch, source_time, H')`, H_s.
        annotations_mask: boolean tensor `(batch, source_time)`, false on padding. Defaults to the mask of the layer
            that made the annotations, or to no padding.
        positions: integer tensor `(batch, steps)`, t of each query. Defaults to 0, 1, 2, and so on.
        return_weights: bool. Whether to return the weights as well. Defaults to `False`.

    Returns:
        float tensor `(batch, steps, H')`, c_t; with `return_weights` a tuple of c_t and the weights `(batch, steps,
        source_time)`.

    Raises:
        ValueError: for an unknown score, for `score_units` without "concat", and if built on widths that do not fit
            the score.

    Reference:
        - Luong et al., 2015 (arXiv 1508.04025), section 3
    """

    #: Whether the weights depend on `positions`.
    needs_positions: ClassVar[bool] = False

    def __init__(
        self,
        score: str = "general",
        score_units: int | None = None,
        kernel_initializer: keras.initializers.Initializer | str = "glorot_uniform",
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        if score not in SCORES:
            raise ValueError(f"found score={score!r}, expected one of {', '.join(SCORES)}")
        if score_units is not None and score != "concat":
            raise ValueError(f'found score_units={score_units} with score={score!r}, expected it with score="concat"')
        self.score = score
        self.score_units = None if score_units is None else checked_size("score_units", score_units)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        width = {"score_units": self.score_units} if score == "concat" else {}
        self.scores = SCORES[score](kernel_initializer=self.kernel_initializer, dtype=self.dtype_policy, **width)

    def build(self, queries_shape: Shape, annotations_shape: Shape) -> None:
        self.scores.build(queries_shape, annotations_shape)
        self.built = True

    def key_width(self, query_width: int, annotation_width: int) -> int:
        """Width of `keys` for queries and annotations of these widths."""
        return self.scores.key_width(query_width, annotation_width)

    def keys(self, annotations: Tensor) -> Tensor:
        """Computes the keys, which queries are compared with: float tensor `(batch, source_time, key_width)`."""
        return self.scores.keys(annotations)

    def window(self, queries: Tensor, mask: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Finds the source positions that each query may attend to, and a factor for its attention weights.

        The weights are multiplied by the factor after the softmax.

        Args:
            queries: float tensor `(batch, steps, H)`.
            mask: boolean tensor `(batch, source_time)`.
            positions: integer tensor `(batch, steps)`, needed if `needs_positions`. Defaults to `None`.

        Returns:
            tuple: the window, a boolean tensor that broadcasts to `(batch, steps, source_time)`, false on padding; and
            the factor, a float tensor of that shape, or `None` for 1.
        """
        raise not_defined(self, "window")

    def attention_weights(self, queries: Tensor, keys: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Computes the weights a_t.

        Args:
            queries: float tensor `(batch, steps, H)`.
            keys: float tensor `(batch, source_time, key_width)`, from `keys`.
            mask: boolean tensor `(batch, source_time)`, false on padding.
            positions: integer tensor `(batch, steps)`, needed if `needs_positions`. Defaults to `None`.

        Returns:
            tensor `(batch, steps, source_time)` of the dtype `weights_dtype`.
        """
        window, factor = self.window(queries, mask, positions)
        scores = ops.cast(self.scores(queries, keys), self.weights_dtype)
        weights = masked_softmax(scores, window)
        return weights if factor is None else weights * factor

    def symbols(self) -> dict[str, keras.Variable]:
        """Returns the weights by the symbols of the equations: "W_a", or "W_q", "W_k" and "v_a", or none."""
        return self.scores.symbols()

    @property
    def multiplies_queries(self) -> bool:
        """Whether matrices multiply the queries: the weights then cost more to compute than the keys to look up."""
        return self.score == "concat"

    @property
    def step(self) -> AttentionStep | None:
        """One step with a hand-written gradient, for a recurrence; `None` if the score or the class has none."""
        # A subclass, which may compute other weights, does not inherit it.
        return self.make_step() if "make_step" in vars(type(self)) and self.score != "concat" else None

    def make_step(self) -> AttentionStep:
        """Makes `step`. Only a class that defines this method itself has one."""
        raise not_defined(self, "make_step")

    @property
    def step_parameters(self) -> dict[str, keras.Variable]:
        """The weights that `step` needs as parameters in addition to the keys and the mask, by name."""
        return {}

    @property
    def weights_dtype(self) -> str:
        """The dtype of the weights a_t."""
        return wide_dtype(self.compute_dtype)

    def call(
        self,
        queries: Tensor,
        annotations: Tensor,
        annotations_mask: Tensor | None = None,
        positions: Tensor | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if annotations_mask is None:
            annotations_mask = ops.ones_like(annotations[:, :, 0], dtype="bool")
        if positions is None:
            positions = ops.broadcast_to(ops.arange(ops.shape(queries)[1], dtype="int32"), ops.shape(queries)[:2])
        weights = self.attention_weights(queries, self.keys(annotations), ops.cast(annotations_mask, "bool"), positions)
        context = matmul(ops.cast(weights, self.compute_dtype), annotations)
        return (context, weights) if return_weights else context

    def compute_mask(self, queries: Tensor, previous_mask: Tensor | None = None) -> Tensor:
        """Returns the mask of the queries: the context of a masked query is masked."""
        return previous_mask

    def get_config(self) -> dict[str, object]:
        return {
            **super().get_config(),
            "score": self.score,
            "score_units": self.score_units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


def register_attention(name: str) -> Callable[[type[Attention]], type[Attention]]:
    """A decorator that registers a class as a kind of attention, for models to use.

    Args:
        name: str. Its name in configurations.

    Raises:
        ValueError: for a name that another class has, and for a class that is not an `Attention`.
    """
    return ATTENTIONS.decorator(name, Attention)


def attention_class(name: str) -> type[Attention]:
    """Returns the class registered under a name.

    Raises:
        ConfigurationError: a ValueError, for a name that is not registered.
    """
    return ATTENTIONS.find(name)


def attention_names() -> list[str]:
    """Returns the names of all registered kinds of attention, in alphabetical order."""
    return sorted(ATTENTIONS)


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
        float tensor `(batch, steps, H')`; with `return_weights` a tuple of it and the weights, float32
        `(batch, steps, source_time)`.

    Example:

    >>> context, weights = GlobalAttention("dot")(ops.ones((1, 2, 3)), ops.ones((1, 4, 3)), return_weights=True)
    >>> tuple(context.shape), ops.convert_to_numpy(weights)[0, 0].tolist()
    ((1, 2, 3), [0.25, 0.25, 0.25, 0.25])

    Reference:
        - Luong et al., 2015 (arXiv 1508.04025), section 3.1
        - "concat": Bahdanau et al., 2015 (arXiv 1409.0473), appendix A.1.2
    """

    def window(self, queries: Tensor, mask: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        return ops.expand_dims(mask, 1), None

    def make_step(self) -> AttentionStep:
        return AttentionStep()


class LocalAttention(Attention):
    """Base of attention to a window of the source around a position p_t.

        window   integer s with floor(p_t) - D <= s <= floor(p_t) + D and 0 <= s < S, the length of the source;
                 if floor(p_t) >= S, the window around S - 1

    Args:
        half_width: int. D. Defaults to `10`.
        score, **kwargs: arguments of `Attention`.

    Raises:
        ValueError: for a half width below 1.
    """

    def __init__(self, score: str = "general", half_width: int = 10, **kwargs: Any) -> None:
        super().__init__(score, **kwargs)
        self.half_width = checked_size("half_width", half_width)

    def centers(self, queries: Tensor, last: Tensor, positions: Tensor) -> Tensor:
        """Computes p_t of each query.

        Args:
            queries: float tensor `(batch, steps, H)`.
            last: float tensor `(batch, 1)`, S - 1 of each source.
            positions: integer tensor `(batch, steps)`.

        Returns:
            float tensor `(batch, steps)`, 0 or more.
        """
        raise not_defined(self, "centers")

    def window(self, queries: Tensor, mask: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        centers = self.centers(queries, last_position(mask, self.weights_dtype), positions)
        window, offsets = local_window(ops.expand_dims(mask, 1), ops.expand_dims(centers, -1), self.half_width)
        return window, self.factor(offsets)

    def factor(self, offsets: Tensor) -> Tensor | None:
        """Computes the factor of the weights from s - p_t, both `(batch, steps, source_time)`; `None` for 1."""
        return None

    def get_config(self) -> dict[str, object]:
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

    def make_step(self) -> AttentionStep:
        return AttentionStep(self.half_width)


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

    def build(self, queries_shape: Shape, annotations_shape: Shape) -> None:
        width, initializer = queries_shape[-1], self.kernel_initializer
        self.position_kernel = self.add_weight(
            shape=(width, width), initializer=fresh(initializer), name="position_kernel"
        )
        self.position_vector = self.add_weight(shape=(width, 1), initializer=fresh(initializer), name="position_vector")
        super().build(queries_shape, annotations_shape)

    def centers(self, queries: Tensor, last: Tensor, positions: Tensor) -> Tensor:
        hidden = tanh(matmul(queries, self.position_kernel))
        share = ops.sigmoid(ops.cast(ops.squeeze(matmul(hidden, self.position_vector), -1), last.dtype))
        return last * share

    def factor(self, offsets: Tensor) -> Tensor | None:
        return gaussian(offsets, self.half_width)

    def symbols(self) -> dict[str, keras.Variable]:
        return {**super().symbols(), "W_p": self.position_kernel, "v_p": self.position_vector}

    @property
    def multiplies_queries(self) -> bool:
        return True

    def make_step(self) -> AttentionStep:
        return AttentionStep(self.half_width, predictive=True)

    @property
    def step_parameters(self) -> dict[str, keras.Variable]:
        return {"position_kernel": self.position_kernel, "position_vector": self.position_vector}
