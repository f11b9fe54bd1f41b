"""The base class of samplers: how target sequences grow, word by word."""

import dataclasses
import functools
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from keras_encdec.backend.keras_ops import ops
from keras_encdec.configuration import Configuration
from keras_encdec.text.vocabulary import END, PADDING, UNKNOWN


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


def forbid_words(log_probs: Any, ids: Sequence[int]) -> Any:
    """Log-probabilities of the next word, -inf for forbidden ids.

    Args:
        log_probs: float tensor `(..., vocabulary)`.
        ids: sequence of int, the forbidden ones.

    Returns:
        tensor of the same shape and dtype.
    """
    # Adding a row takes one pass over the rows; choosing word by word takes two.
    mask = np.zeros(log_probs.shape[-1], "float32")
    mask[list(ids)] = -np.inf
    return log_probs + ops.convert_to_tensor(mask, log_probs.dtype)


@dataclasses.dataclass(frozen=True)
class Sampler(Configuration):
    """Base class of samplers, which search for target sequences or draw them.

    For each source, `rows_per_source` partial sequences grow together, and the `results_per_source` hypotheses that
    were kept when the search is over are its results. A sampler is the definition of one step, in `keras.ops`:

        search         = initial(limits)
        choice, search = step(log_probs, search)      until search["searching"] is false for every source

    What may follow, what ends, what is kept and when a search is over stand there and nowhere else. The tokens, the
    sums of ln p and the decoder's state are kept by who drives the search: `Generator` in Python, on any backend,
    and the graph of an exported model. `search` is a dict of named tensors, each with one row a SOURCE, so that a
    driver can take sources out of it. "searching", boolean `(sources,)`, is always there; "scores", float
    `(sources, results)`, holds what the kept hypotheses are ranked by, where that is not their ln p. All others are
    the sampler's own.

    Here rows grow independently of each other, and each becomes a result when it ends: such a sampler only overrides
    `choose`. Others override `initial` and `step`. Options are fields declared by `hyperparameter`, and
    `register_sampler` makes the sampler available by name, to commands and in exported models.
    """

    #: Whether no hypothesis may have the unknown word. A sampler that offers it declares it as an option.
    suppress_unknown = False  # without an annotation: no field, so that it takes no place among a sampler's options
    #: Whether `step` needs a random number for each row.
    needs_draws: ClassVar[bool] = False
    #: Options that `step` reads from the search or not at all: what is compiled does not depend on them.
    search_options: ClassVar[tuple[str, ...]] = ()

    @property
    def rows_per_source(self) -> int:
        """Target sequences that grow together for a source."""
        return 1

    @property
    def results_per_source(self) -> int:
        """Hypotheses that are kept for a source, at most."""
        return self.rows_per_source

    @property
    def needs_attention(self) -> bool:
        """Whether `initial` needs the mask of the sources, and `step` the attention of each row."""
        return False

    @functools.cached_property
    def step_key(self) -> Hashable:
        """All that `step` depends on: samplers of one key share what is compiled."""
        options = ((name, value) for name, value in self.to_dict().items() if name not in self.search_options)
        return type(self), *options

    def initial(self, limits: Any) -> dict[str, Any]:
        """What a search begins with.

        Args:
            limits: int32 `(sources,)`: tokens of a target at most, its end counted; 1 or more.
            source_mask: boolean `(sources, source_time)`, false on padding; where `needs_attention`.

        Returns:
            dict of tensors, each with one row a source.
        """
        limits = ops.convert_to_tensor(limits, "int32")
        searching = ops.ones_like(limits, dtype="bool")
        growing = ops.repeat(searching[:, None], self.rows_per_source, axis=1)
        return {"limits": limits, "length": ops.zeros_like(limits), "searching": searching, "growing": growing}

    def step(self, log_probs: Any, search: dict[str, Any], draws: Any = None) -> tuple[Choice, dict[str, Any]]:
        """Takes a step.

        Args:
            log_probs: float tensor `(sources * rows, vocabulary)`: ln p of the next word of each row, the rows of a
                source together, in order.
            search: dict of tensors, of `initial` or the step before.
            draws: float tensor `(sources, rows)` of random numbers from [0, 1), where `needs_draws`.
            attention: float tensor `(sources, rows, source_time)`: where each row attended to when it gave these
                log-probabilities; where `needs_attention`.

        Returns:
            tuple: Choice, and the new search, of the same names, shapes and dtypes.
        """
        rows = self.rows_per_source
        words = ops.cast(self.choose(log_probs, search, draws), "int32")
        length, growing = search["length"] + 1, search["growing"]
        words = ops.where((length >= search["limits"])[:, None], END, ops.reshape(words, (-1, rows)))
        chosen = ops.take_along_axis(log_probs, ops.reshape(words, (-1, 1)), axis=1)
        ended = ops.logical_and(growing, words == END)
        indices = ops.arange(rows, dtype="int32")
        choice = Choice(
            words=ops.where(growing, words, PADDING),
            log_probs=ops.reshape(chosen, (-1, rows)),
            end_log_probs=ops.reshape(log_probs[:, END], (-1, rows)),
            kept=ops.where(ended, indices + rows, indices),
        )
        growing = ops.logical_and(growing, ops.logical_not(ended))
        return choice, {**search, "length": length, "growing": growing, "searching": ops.any(growing, axis=1)}

    def choose(self, log_probs: Any, search: dict[str, Any], draws: Any = None) -> Any:
        """The next word of each row.

        At the limit the end of sequence follows, whatever was chosen; what is chosen for a row that has ended does
        not matter.

        Args:
            log_probs, search, draws: see `step`.

        Returns:
            integer tensor `(sources * rows,)`.
        """
        raise NotImplementedError

    def allowed(self, log_probs: Any, end: bool) -> Any:
        """Log-probabilities of the words that may follow, -inf for all others.

        Args:
            log_probs: float tensor `(..., vocabulary)`.
            end: bool. Whether the end of sequence is among them.
        """
        return forbid_words(log_probs, [PADDING] + [END] * (not end) + [UNKNOWN] * self.suppress_unknown)

    def draws(self, number: int, steps: int) -> np.ndarray:
        """Random numbers for a search in Python, where `needs_draws`.

        Args:
            number: int. The source's number among all.
            steps: int.

        Returns:
            float32 array `(steps, rows)`, from [0, 1); those of a step do not depend on how many follow.
        """
        raise NotImplementedError
