"""Checks sources and the words that may be used in their targets, and groups the sources into batches."""

import functools
import math
import numbers
import operator
import reprlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import compiles_shapes
from keras_encdec.backend.devices import on_cpu
from keras_encdec.backend.types import Tensor
from keras_encdec.configuration import product_rounded_up
from keras_encdec.data.batches import length_batches, pad
from keras_encdec.data.rare_word_batches import local_sources
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.layers.initializers import checked_size
from keras_encdec.text.lexical_shortlist import candidate_lists, with_special_ids
from keras_encdec.text.vocabulary import END, PADDING

Value = TypeVar("Value")

# Maximum target length per source word, and the limit in words for sources of a word or two, which may need more.
LENGTH_FACTOR, MIN_LIMIT = 1.5, 10
# Higher limits are reduced to this number of words, as a search allocates memory for its limit.
MAX_LIMIT = 100_000

# Maximum number of target sequences in a batch, unless a single source needs more.
MAX_ROWS = 768
# Maximum number of sources in a batch on a CPU: the sources of a smaller batch have more similar lengths, and more
# batches share the processors more evenly. `benchmarks/translation.py` (greedy) measures the benefit.
MAX_SOURCES = 256
# Maximum number of source tokens in a batch, padding included, unless a single source has more.
MAX_TOKENS = 1 << 15

# With this number of rows or more, each source has its own output weights. With fewer rows, reading the weights would
# take most of the time, so neighbouring sources share the weights of all their words, and each masks the words of the
# others. `benchmarks/attention.py` measures the benefit.
OWN_ROWS = 4
# Number of sources, roughly, that share their words: more sources have more words, fewer have too few rows in a matrix
# product. `benchmarks/translation.py` measures the benefit.
SHARING_SOURCES = 32
# If groups of neighbours have more than this share of all words, the whole batch shares its words: its one product is
# faster, and few words are left out. `benchmarks/attention.py` measures the benefit.
WHOLE_SHARE = 0.5


class Candidates(NamedTuple):
    """Candidate words of a batch of sources.

    Attributes:
        words: int32 array `(groups, width)`, ids in ascending order, then padding with 0: the words of each group of
            neighbouring sources, all of the same size.
        allowed: boolean array `(sources, width)`: which of these words may follow in targets of a source.
    """

    words: np.ndarray
    allowed: np.ndarray


class SearchRequests(NamedTuple):
    """Sources, and what is requested for each of them.

    Attributes:
        sources: list of lists of ids, without padding.
        limits: list of int, see `target_limit`.
        input_indices: range, the index of each source in the whole input, for random numbers.
        candidates: list of int arrays, the ids that may be used in the targets of each source, with the special ids;
            `None` if all may.
        spellings: integer array `(words, 51)`, the spellings of the rare words of all sources; `None` if there are
            none.
    """

    sources: list[list[int]]
    limits: list[int]
    input_indices: range
    candidates: list[np.ndarray] | None
    spellings: np.ndarray | None


class SearchBatch(NamedTuple):
    """Sources that are searched together.

    Attributes:
        indices: list of int, the indices of the sources among the requests; `None` for an empty source that fills the
            batch up.
        source: int32 array `(sources, time)`, padded ids.
        limits: int array `(sources,)`, see `target_limit`.
        input_indices: list of int, the index of each source in the whole input, for random numbers.
        candidates: Candidates, the words that may follow; `None` if all may.
        characters: list of int arrays, the spellings of rare words, see `Ensemble.start`.
    """

    indices: Sequence[int | None]
    source: np.ndarray
    limits: np.ndarray
    input_indices: list[int]
    candidates: Candidates | None = None
    characters: Sequence[np.ndarray] = ()


class SearchBatches:
    """Checks the sources for a model, and groups them into batches.

    Args:
        source_ids: int. Number of ids of source words, without rare words.
        target_ids: int. Number of ids of target words.
    """

    def __init__(self, source_ids: int, target_ids: int) -> None:
        self._source_ids, self._target_ids = source_ids, target_ids
        self._candidate_widths: dict[tuple[int, int], int] = {}

    def requests(
        self,
        sources: Sequence[Sequence[int]] | np.ndarray,
        max_length_factor: float = LENGTH_FACTOR,
        max_length: int | None = None,
        first: int = 0,
        candidates: Sequence[np.ndarray] | None = None,
        spellings: np.ndarray | None = None,
    ) -> SearchRequests:
        """Checks the sources and what is requested for them; see `Generator.generate`.

        Raises:
            ValueError: for a source or candidates that are not ids of the model, and for a limit out of range.
        """
        if not isinstance(max_length_factor, numbers.Real) or not 0 <= max_length_factor < math.inf:
            raise ValueError(f"found max_length_factor={max_length_factor!r}, expected a number, 0 or more")
        if max_length is not None:
            max_length = checked_size("max_length", max_length, minimum=0)
        if not np.iterable(sources):
            raise ValueError(f"found {sources!r} in place of the sources, expected a list of sequences of ids")
        source_ids = self._source_ids + (0 if spellings is None else len(spellings))
        unpadded = [_unpadded(source, source_ids) for source in sources]
        return SearchRequests(
            unpadded,
            [target_limit(len(source) - 1, max_length_factor, max_length) for source in unpadded],
            range(first, first + len(unpadded)),
            None if candidates is None else candidate_lists(candidates, len(unpadded), self._target_ids),
            spellings,
        )

    def batches(self, requests: SearchRequests, sampler: Sampler) -> Iterator[SearchBatch]:
        """Yields batches of sources of similar length, in few shapes, the longest first.

        Empty sources fill batches up: their searches end at the first step.
        """
        max_rows = max(1, MAX_ROWS // sampler.rows_per_source)
        if on_cpu():
            max_rows = min(max_rows, MAX_SOURCES)
        lengths = [len(source) for source in requests.sources]
        # If the longest came last, one thread would be busy after the others have ended: `benchmarks/attention.py`
        # (greedy).
        for indices, rows, width in reversed(list(length_batches(lengths, max_rows, MAX_TOKENS))):
            order: list[int | None] = [*indices, *[None] * (rows - len(indices))]
            candidates = None
            if requests.candidates is not None:
                groups = rows if sampler.rows_per_source >= OWN_ROWS else sharing_groups(rows)
                if groups < rows:
                    # Sources of all lengths are in each group, so that all groups become smaller at the same time.
                    order = [index for group in range(groups) for index in order[group::groups]]
                words = _in_order(requests.candidates, order, with_special_ids(np.arange(0)))
                if groups < rows and self._needs_most_words(width, groups):  # as in an earlier batch
                    groups = 1
                candidates = batch_candidates(words, groups, functools.partial(self._candidate_width, width, groups))
                if 1 < groups < rows and self._needs_most_words(width, groups):
                    candidates = batch_candidates(words, 1, functools.partial(self._candidate_width, width, 1))
            source = pad(_in_order(requests.sources, order, [END]), width)
            characters: list[np.ndarray] = []
            if requests.spellings is not None:
                source, characters = local_sources(source, self._source_ids, requests.spellings)
            limits = np.array(_in_order(requests.limits, order, 1))
            input_indices = _in_order(requests.input_indices, order, 0)
            yield SearchBatch(order, source, limits, input_indices, candidates, characters)

    def _needs_most_words(self, source_width: int, groups: int) -> bool:
        """Returns whether candidates of this width were so wide that the whole batch should share one set of words."""
        return self._candidate_widths.get((source_width, groups), 0) > WHOLE_SHARE * self._target_ids

    def _candidate_width(self, source_width: int, groups: int, needed: int) -> int:
        """Returns the width of candidates, the same for many batches of a source width, as each width is compiled."""
        key = source_width, groups
        width = (compiled_width if compiles_shapes() else uneven_width)(needed, self._target_ids)
        self._candidate_widths[key] = max(width, self._candidate_widths.get(key, 0))
        return self._candidate_widths[key]


def _in_order(values: Sequence[Value], order: Sequence[int | None], filler: Value) -> list[Value]:
    """Returns the values of the sources in an order, where `None` is an empty source, with the value `filler`."""
    return [filler if index is None else values[index] for index in order]


def target_limit(source_length: int, max_length_factor: float = LENGTH_FACTOR, max_length: int | None = None) -> int:
    """Returns the maximum number of tokens of a target, the end of sequence included.

    Args:
        source_length: int. Number of words of the source, the end of sequence not counted.
        max_length_factor: float. Maximum number of target words per source word; 10 words are always allowed, except
            for an empty source, whose target is empty. Defaults to `1.5`.
        max_length: int. Maximum number of target words, whatever the source, instead of `max_length_factor`. Defaults
            to `None`.

    Returns:
        int, from 1 to 100,001.

    Example:

    >>> target_limit(20), target_limit(3), target_limit(0), target_limit(20, max_length=5)
    (31, 11, 1, 6)
    >>> target_limit(10, 1.1)
    12
    >>> target_limit(20, 1e308), target_limit(20, max_length=10**14)
    (100001, 100001)
    """
    if max_length is not None:
        return min(max_length, MAX_LIMIT) + 1
    longest = min(product_rounded_up(max_length_factor, source_length), MAX_LIMIT)
    return max(MIN_LIMIT, int(longest)) + 1 if source_length else 1


def _unpadded(source: Sequence[int] | np.ndarray, ids: int) -> list[int]:
    """Checks a source, and returns its ids without padding."""
    if not np.iterable(source):
        raise ValueError(f"found the source {source}, expected a sequence of ids: give a list of sources")
    try:
        source = list(map(operator.index, source))
    except TypeError:
        found = reprlib.repr(source)
        raise ValueError(f"found the source {found}, expected a sequence of ids; TextGenerator takes texts") from None
    while source and source[-1] == PADDING:
        source.pop()
    if not source or source[-1] != END or not {PADDING, END}.isdisjoint(source[:-1]):
        raise ValueError(f"found the source {source}, expected ids closed by one end of sequence, {END}")
    if not 0 <= min(source) <= max(source) < ids:
        raise ValueError(f"found the source {source}, expected ids from 1 to {ids - 1}")
    return source


def sharing_groups(sources: int) -> int:
    """Returns the number of equal groups of about `SHARING_SOURCES` neighbours that a batch of sources has.

    Example:

    >>> [sharing_groups(sources) for sources in (1, 13, 40, 256, 144)]
    [1, 1, 2, 8, 4]
    """
    most = -(-sources // SHARING_SOURCES)
    return next(groups for groups in range(most, 0, -1) if sources % groups == 0)


def batch_candidates(words: Sequence[np.ndarray], groups: int, width: Callable[[int], int]) -> Candidates:
    """Lays out the candidate words of a batch.

    Args:
        words: list of int arrays, the ids of each source from `with_special_ids`.
        groups: int. Number of groups of neighbouring sources that share a row; a divisor of the number of sources.
        width: function that takes the number of words of the largest group and returns the width, which is at least
            that.

    Example:

    >>> a, b = with_special_ids([5]), with_special_ids([4, 7])
    >>> words, allowed = batch_candidates([a, b], 1, lambda needed: needed + 1)
    >>> words.tolist(), allowed.astype(int).tolist()
    ([[0, 1, 2, 4, 5, 7, 0]], [[1, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 0, 1, 0]])
    """
    size = len(words) // groups
    shared = [np.unique(np.concatenate(words[start : start + size])) for start in range(0, len(words), size)]
    rows = np.zeros((groups, width(max(map(len, shared)))), np.int32)
    allowed = np.zeros((len(words), rows.shape[1]), bool)
    for number, own in enumerate(words):
        allowed[number, np.searchsorted(shared[number // size], own)] = True
    for row, together in zip(rows, shared, strict=True):
        row[: len(together)] = together
    return Candidates(rows, allowed)


def compiled_width(needed: int, vocabulary_size: int) -> int:
    """Rounds a width up, so that few shapes are compiled.

    The widths are the powers of two and one and a half times these; above 1,024, where words that are not needed take
    time, also one and a quarter and one and three quarters times these.

    Example:

    >>> [compiled_width(needed, 8000) for needed in (3, 65, 130, 200, 3216, 7900)]
    [64, 96, 192, 256, 3584, 8000]
    """
    largest_power = 1 << max(6, needed.bit_length() - 1)
    step = largest_power // (2 if needed <= 1024 else 4)
    width = max(64, -(-needed // step) * step)
    return min(width, max(vocabulary_size, needed))


def uneven_width(needed: int, vocabulary_size: int) -> int:
    """Rounds a width up where nothing is compiled: in smaller steps, and above 1,024 not to a multiple of 256.

    The rows of a matrix of 2,048 columns begin a multiple of 4 kB apart, so that fewer of them fit into a processor's
    cache, and a product takes up to one and a half times as long.

    Example:

    >>> [uneven_width(needed, 8000) for needed in (3, 1024, 1030, 2048, 2200, 7990)]
    [64, 1024, 1088, 2112, 2368, 8000]
    """
    if needed <= 1024:
        return compiled_width(needed, vocabulary_size)
    return min(-(-(needed - 64) // 256) * 256 + 64, max(vocabulary_size, needed))


def words_of_columns(words: Tensor, columns: Tensor) -> Tensor:
    """Returns the ids of candidates by their columns.

    Args:
        words: int32 tensor `(groups, width)`, see `Candidates`.
        columns: int32 tensor `(sources, rows)`.

    Returns:
        int32 tensor `(sources, rows)`.
    """
    grouped = ops.reshape(columns, (words.shape[0], -1))
    return ops.reshape(ops.take_along_axis(words, grouped, axis=1), ops.shape(columns))
