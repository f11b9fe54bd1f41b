"""Shape and dtype of a named tensor of the decoder contract."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """What a tensor looks like, its leading dimension (rows, or sources) left out.

    Attributes:
        shape: tuple of int; `None` stands for the number of source positions.
        dtype: str, such as "int32" or "bool"; `None` for the compute dtype of the layer that makes it.
        time_axis: int. Which axis of the whole tensor, counted from 0 with the leading one, runs along the source;
            `None` where none does. What is padded along it is zero, or false.

    Example:

    >>> TensorSpec((None, 512), time_axis=1).with_time(7)
    (7, 512)
    """

    shape: tuple
    dtype: str | None = None
    time_axis: int | None = None

    def __post_init__(self) -> None:
        unknown = [axis for axis, size in enumerate(self.shape, start=1) if size is None]
        if unknown != ([] if self.time_axis is None else [self.time_axis]):
            raise ValueError(
                f"found the shape {self.shape} with time_axis={self.time_axis}, expected None at that axis and "
                "nowhere else"
            )

    def with_time(self, steps: int) -> tuple:
        """The shape for a number of source positions."""
        return tuple(steps if size is None else size for size in self.shape)
