"""What the two kinds of local attention have in common."""

from typing import Any

from keras import ops

from keras_encdec.layers.attention import Attention
from keras_encdec.layers.attention_window import last_position, local_window


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

    def centers(self, queries: Any, last: Any, positions: Any) -> Any:
        """p_t of each query.

        Args:
            queries: float tensor `(batch, steps, H)`.
            last: float tensor `(batch, 1)`, S - 1 of each source.
            positions: integer tensor `(batch, steps)`.

        Returns:
            float tensor `(batch, steps)`, 0 or more.
        """
        raise NotImplementedError

    def window(self, queries: Any, mask: Any, positions: Any = None) -> tuple[Any, Any]:
        centers = self.centers(queries, last_position(mask, self.weights_dtype), positions)
        window, offsets = local_window(ops.expand_dims(mask, 1), ops.expand_dims(centers, -1), self.half_width)
        return window, self.factor(offsets)

    def factor(self, offsets: Any) -> Any:
        """By what weights are multiplied, from s - p_t, float tensor `(batch, steps, source_time)`; `None` for 1."""
        return None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "half_width": self.half_width}
