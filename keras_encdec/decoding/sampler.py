"""The base class of samplers, which extend target sequences word by word."""

import dataclasses
import functools
from collections.abc import Hashable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from keras_encdec.backend.operations import ops
from keras_encdec.backend.types import SearchState, Tensor
from keras_encdec.configuration import Configuration, ConfigurationError
from keras_encdec.errors import not_defined
from keras_encdec.text.vocabulary import END, PADDING, UNKNOWN

# Help of the option `suppress_unknown` of the samplers that have it.
SUPPRESS_UNKNOWN = "Never generate the unknown word <unk>. Position words may still be generated."


class Choice(NamedTuple):
    """A sampler's decisions in a step, for each source.

    Attributes:
        words: int32 tensor `(sources, rows)`: the next word of each row.
        log_probs: float tensor `(sources, rows)`: ln p of these words, given the words before them.
        end_log_probs: float tensor `(sources, rows)`: ln p of the end of sequence as the next word of each row before
            the step.
        kept: int32 tensor `(sources, results)`: which hypotheses are kept after the step. An index below `results`
            means a hypothesis that was kept before; `results + r` means row r before the step, closed by the end of
            sequence.
        parents: int32 tensor `(sources, rows)`: which row of the same source before the step each row continues.
            Defaults to `None`: each row continues itself.
    """

    words: Tensor
    log_probs: Tensor
    end_log_probs: Tensor
    kept: Tensor
    parents: Tensor | None = None


def forbid_words(log_probs: Tensor, ids: Sequence[int]) -> Tensor:
    """Sets the log-probabilities of forbidden words to -inf.

    Args:
        log_probs: float tensor `(..., vocabulary)`: ln p of the next word.
        ids: sequence of int, the ids of the forbidden words.

    Returns:
        tensor of the same shape and dtype.
    """
    # Adding a row of 0 and -inf takes one pass over the tensor; `where` takes two.
    mask = np.zeros(log_probs.shape[-1], "float32")
    mask[list(ids)] = -np.inf
    return log_probs + ops.convert_to_tensor(mask, log_probs.dtype)


@dataclasses.dataclass(frozen=True)
class Sampler(Configuration):
    """Base class of samplers, which search for target sequences or draw them.

    For each source, a search extends `rows_per_source` partial sequences together. Its results are the hypotheses that
    are kept at its end, at most `results_per_source`. A sampler defines one step of the search, in `keras.ops`:

        search         = initial(limits)
        choice, search = step(log_probs, search)      until search["searching"] is false for every source

    The sampler alone decides which words may follow, which sequences end, which hypotheses are kept and when a search
    is over. The driver of the search holds the tokens, the sums of ln p and the decoder's state. There are two
    drivers: `Generator` in Python, on any backend, and the graph of an exported model.

    `search` is a dict of named tensors, each with one row per SOURCE, so that a driver can remove sources from it. It
    always has "searching", boolean `(sources,)`. It has "scores", float `(sources, results)`, if the kept hypotheses
    are not ranked by their ln p. All other tensors are the sampler's own.

    In this base class the rows grow independently of one another, and each becomes a result when it ends; a subclass
    of this kind overrides only `choose`. Other samplers override `initial` and `step`. Options are fields declared by
    `hyperparameter`. `register_sampler` makes a sampler available by name, to commands and in exported models.
    """

    #: Whether to exclude the unknown word. A sampler that offers the choice declares it as an option.
    suppress_unknown = False  # without an annotation it is not a field, and so not an option of every sampler
    #: Whether `step` needs a random number for each row.
    needs_draws: ClassVar[bool] = False
    #: Options that `step` reads from `search`, or not at all: the compiled step does not depend on them.
    search_options: ClassVar[tuple[str, ...]] = ()

    @property
    def rows_per_source(self) -> int:
        """Number of target sequences that a search extends together for a source."""
        return 1

    @property
    def results_per_source(self) -> int:
        """Maximum number of hypotheses that are kept for a source."""
        return self.rows_per_source

    @property
    def needs_attention(self) -> bool:
        """Whether `initial` needs the mask of the sources, and `step` the attention of each row."""
        return False

    def check_attention(self, has_attention: bool) -> None:
        """Raises ConfigurationError, a ValueError, if the sampler needs attention and the model has none."""
        if self.needs_attention and not has_attention:
            raise ConfigurationError("found {coverage_penalty} with a model that has no attention; drop it")

    @functools.cached_property
    def step_key(self) -> Hashable:
        """What the compiled step depends on: samplers with equal keys share it."""
        options = ((name, value) for name, value in self.to_dict().items() if name not in self.search_options)
        return type(self), *options

    def initial(self, limits: Tensor) -> SearchState:
        """Returns the tensors of a search at its beginning.

        Args:
            limits: int32 `(sources,)`: maximum number of tokens of each target, the end of sequence included; 1 or
                more.
            source_mask: boolean `(sources, source_time)`, false on padding. Given only if `needs_attention`.

        Returns:
            dict of tensors, each with one row per source.
        """
        limits = ops.convert_to_tensor(limits, "int32")
        searching = ops.ones_like(limits, dtype="bool")
        growing = ops.repeat(searching[:, None], self.rows_per_source, axis=1)
        return {"limits": limits, "length": ops.zeros_like(limits), "searching": searching, "growing": growing}

    def step(self, log_probs: Tensor, search: SearchState, draws: Tensor | None = None) -> tuple[Choice, SearchState]:
        """Takes a step.

        Args:
            log_probs: float tensor `(sources * rows, vocabulary)`: ln p of the next word of each row; the rows of a
                source are consecutive.
            search: dict of tensors, from `initial` or the previous step.
            draws: float tensor `(sources, rows)` of random numbers from [0, 1). Given only if `needs_draws`.
            attention: float tensor `(sources, rows, source_time)`: the attention with which the log-probabilities of
                each row were computed. Given only if `needs_attention`.

        Returns:
            tuple of the Choice and the new `search`, with the same names, shapes and dtypes.
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

    def choose(self, log_probs: Tensor, search: SearchState, draws: Tensor | None = None) -> Tensor:
        """Chooses the next word of each row.

        The choice does not matter at the limit, where the end of sequence follows, and for rows that have ended.

        Args:
            log_probs, search, draws: see `step`.

        Returns:
            integer tensor `(sources * rows,)`.
        """
        raise not_defined(self, "choose")

    def allowed(self, log_probs: Tensor, end: bool) -> Tensor:
        """Sets the log-probabilities of the words that may not follow to -inf.

        Args:
            log_probs: float tensor `(..., vocabulary)`.
            end: bool. Whether the end of sequence may follow.
        """
        return forbid_words(log_probs, [PADDING] + [END] * (not end) + [UNKNOWN] * self.suppress_unknown)

    def score_gain(self, gain: Tensor, tokens: Tensor) -> Tensor:
        """Returns how much the score of a hypothesis rises if its ln p rises.

        Args:
            gain: float, or tensor of any shape. In nats.
            tokens: int, or tensor of the same shape. Length of the hypothesis, the end of sequence included.
        """
        return gain

    def keeping_all(self) -> "Sampler":
        """Returns a sampler of the same search whose results are all hypotheses that the search can keep."""
        return self

    def character_sampler(self) -> "Sampler | None":
        """Returns the sampler that spells an unknown word, with one result; `None` for a beam search."""
        return None

    def draws(self, number: int, steps: int) -> np.ndarray:
        """Draws random numbers for a search in Python, if `needs_draws`.

        Args:
            number: int. Index of the source in the whole input.
            steps: int. Number of steps of the search.

        Returns:
            float32 array `(steps, rows)` of numbers from [0, 1). The first rows do not depend on the number of steps.
        """
        raise not_defined(self, "draws")
