"""What the two kinds of local attention have in common."""

from typing import Any

from keras import ops

from keras_encdec.layers.attention import Attention


class LocalAttention(Attention):
    """Base of attention to a window of the source around a position p_t.

        window   integer s with floor(p_t) - D <= s <= floor(p_t) + D and 0 <= s < S, the source's length;
                 that of S - 1 where floor(p_t) >= S

    Args:
        half_width: int. D. Defaults to `10`.
        **arguments: of `Attention`.

    Raises:
        ValueError: for a half width below 1.
    """

    def __init__(self, score: str = "general", half_width: int = 10, **kwargs: Any) -> None:
        super().__init__(score, **kwargs)
        if half_width < 1:
            raise ValueError(f"found half_width={half_width}, expected 1 or more")
        self.half_width = half_width

    def centers(self, queries: Any, lengths: Any, positions: Any) -> Any:
        """p_t of each query.

        Args:
            queries: float tensor `(batch, steps, H)`.
            lengths: float tensor `(batch, 1)`, S of each source.
            positions: integer tensor `(batch, steps)`.

        Returns:
            float tensor `(batch, steps)`, 0 or more.
        """
        raise NotImplementedError

    def window(self, queries: Any, mask: Any, positions: Any = None) -> tuple[Any, Any]:
        dtype = self.weights_dtype
        lengths = ops.sum(ops.cast(mask, dtype), axis=1, keepdims=True)
        centers = self.centers(queries, lengths, positions)
        middle = ops.minimum(ops.floor(centers), ops.maximum(lengths - 1, 0))
        source_positions = ops.arange(ops.shape(mask)[1], dtype=dtype)
        distance = ops.absolute(source_positions - ops.expand_dims(middle, -1))
        window = ops.logical_and(ops.expand_dims(mask, 1), distance <= self.half_width)
        return window, self.factor(source_positions - ops.expand_dims(centers, -1))

    def factor(self, offsets: Any) -> Any:
        """By what weights are multiplied, from s - p_t, float tensor `(batch, steps, source_time)`; `None` for 1."""
        return None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "half_width": self.half_width}
