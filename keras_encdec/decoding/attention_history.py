"""The attention of partial target sequences during a search."""

import numpy as np


class AttentionHistory:
    """Remembers where all rows of a search attended to, and which rows they continued.

    Args:
        source_lengths: int array `(sources,)`: tokens of each source, its end counted.
    """

    def __init__(self, source_lengths: np.ndarray) -> None:
        self._lengths = source_lengths
        self._steps: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []

    def add(self, sources: np.ndarray, attention: np.ndarray, parents: np.ndarray | None) -> None:
        """Adds a step.

        Args:
            sources: int array `(n,)`: the sources that are searched for.
            attention: float array `(n, rows, source_time)`, by which the next words were predicted.
            parents: int array `(n, rows)`: which row each row then continues; `None` where each continues itself.
        """
        indices = np.full(len(self._lengths), -1)
        indices[sources] = np.arange(len(sources))
        self._steps.append((indices, attention, parents))

    def of(self, source: int, row: int) -> np.ndarray:
        """The attention of a row as it was before the last step, its end counted: `(tokens, source_tokens)`."""
        found = []
        for number, (indices, attention, parents) in enumerate(reversed(self._steps)):
            index = indices[source]
            if number and parents is not None:
                row = parents[index, row]
            found.append(attention[index, row, : self._lengths[source]])
        return np.stack(found[::-1])
