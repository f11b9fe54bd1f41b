"""What a sampler chooses in a step of the search."""

from typing import Any, NamedTuple


class Choice(NamedTuple):
    """What a sampler chooses in a step, for each source.

    Attributes:
        words: int32 tensor `(sources, rows)`: the next word of each row.
        log_probs: float tensor `(sources, rows)`: ln p of these words, given what stands before them.
        end_log_probs: float tensor `(sources, rows)`: ln p of the end of sequence after each row as it was before.
        kept: int32 tensor `(sources, results)`: which hypotheses are kept after the step. An index below `results`
            is that of a hypothesis kept so far; `results + r` is row r as it was before, with the end of sequence.
        parents: int32 tensor `(sources, rows)`: which row of the same source, as it was before, each row continues.
            Defaults to `None`: each row continues itself.
    """

    words: Any
    log_probs: Any
    end_log_probs: Any
    kept: Any
    parents: Any = None
