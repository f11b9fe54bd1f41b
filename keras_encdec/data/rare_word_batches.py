"""The words of a batch that are outside the shortlist, with their characters, grouped by length."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_encdec.data.prepared_pairs import Ids, Indices, PreparedPairs
from keras_encdec.text.vocabulary import SPELLING_WIDTH, UNKNOWN

#: Widths of the arrays of spellings, end mark included: most rare words need 10 characters or fewer.
SPELLING_WIDTHS = (10, 20, SPELLING_WIDTH)


def characters_key(side: str, width: int) -> str:
    """Returns the name of the model input that holds the spellings of a side."""
    return f"{side}_characters_{width}"


def positions_key(width: int) -> str:
    """Returns the name of the model input that holds the positions of the spelled target words."""
    return f"target_positions_{width}"


class SpellingGroup(NamedTuple):
    """Words of similar length.

    Attributes:
        indices: int array `(n,)`, the indices of the words.
        characters: int32 array `(rows, width)`, their spellings in the first n rows; all other rows are padding.
    """

    indices: np.ndarray
    characters: Ids


def by_length(spellings: np.ndarray, min_rows: Sequence[int] = (), exact: bool = False) -> list[SpellingGroup]:
    """Groups spellings by length, one group for each of `SPELLING_WIDTHS`.

    Args:
        spellings: integer array `(n, 51)`, see `spelled`.
        min_rows: the minimum number of rows of each group. If a group needs more, the number is doubled, starting
            from 8. Defaults to 0.
        exact: bool. Whether each group has exactly the rows that it needs, for backends that compile nothing. Defaults
            to `False`.
    """
    lengths = np.count_nonzero(spellings, axis=1)
    groups, shorter = [], 0
    for number, width in enumerate(SPELLING_WIDTHS):
        indices = np.flatnonzero((lengths > shorter) & (lengths <= width))
        rows = len(indices)
        if not exact:
            rows = min_rows[number] if min_rows else 0
            while rows < len(indices):
                rows = max(8, 2 * rows)
        characters = np.zeros((rows, width), np.int32)
        characters[: len(indices)] = spellings[indices, :width]
        groups.append(SpellingGroup(indices, characters))
        shorter = width
    return groups


class LocalSources(NamedTuple):
    """Sources whose rare words have ids that are local to the batch.

    Attributes:
        ids: int32 array, shaped like the sources; the id `first + i` is row i of all `characters` together.
        characters: list of int32 arrays `(rows, width)`, each distinct rare word once.
    """

    ids: Ids
    characters: list[Ids]


def local_sources(
    ids: Ids, first: int, spellings: np.ndarray, min_rows: Sequence[int] = (), exact: bool = False
) -> LocalSources:
    """Numbers the distinct rare words of a batch of sources, grouped by length.

    Args:
        ids: int32 array of any shape. An id of `first` or more is a word whose spelling is in row `id - first`.
        first: int.
        spellings: integer array `(words, 51)`.
        min_rows, exact: see `by_length`.
    """
    is_rare = ids >= first
    words, index = np.unique(ids[is_rare] - first, return_inverse=True)
    groups, row_of_word, start = by_length(spellings[words], min_rows, exact), np.zeros(len(words), np.int32), 0
    for group in groups:
        row_of_word[group.indices] = start + np.arange(len(group.indices))
        start += len(group.characters)
    local = ids.copy()
    local[is_rare] = first + row_of_word[index]
    return LocalSources(local, [group.characters for group in groups])


class RareWordBatches:
    """Adds the characters of rare words to batches of pairs.

    A side with characters gets arrays of three widths, so that short words are not padded to the longest. On the source
    side each distinct rare word of a batch is one row of `source_characters_10`, `..._20` or `..._51`, and the ids of
    rare words are local to the batch: the number of the shortlist's ids, plus the row in the three arrays together. On
    the target side each occurrence of a rare word is a row of `target_characters_10` and so on; `target_positions_10`
    and so on have its position, `row * width + column`, in "target", where the word is the unknown word. Rows that are
    all 0 are padding; a side without rare words has one such row.

    Where each shape is compiled, the arrays have the same numbers of rows in nearly all batches with the same widths of
    source and target. Hardly any more shapes are then compiled than without characters.

    Args:
        pairs: PreparedPairs with spellings.
        counted: iterable of the indices of batches, and their widths of source and target. All batches with the same
            widths as these get the same number of rows: n + 2 sqrt(n), rounded up to a multiple of 8, where n is the
            largest number of rare words in the counted batches of these widths. If n is a Poisson variable, 2 sqrt(n)
            is two standard deviations. The number is doubled until all rare words of a batch fit. Defaults to `None`:
            the arrays of a side with rare words have no rows of padding.
    """

    def __init__(self, pairs: PreparedPairs, counted: Iterable[tuple[Indices, tuple[int, int]]] | None = None) -> None:
        self._pairs, self._exact = pairs, counted is None
        max_words: dict[tuple[str, tuple[int, int]], Indices] = {}
        for indices, widths in counted or ():
            rows = pairs.padded(indices, with_rare_ids=True)
            for side, spellings in pairs.spellings.items():
                words = rows[side][rows[side] >= pairs.first_rare_id(side)] - pairs.first_rare_id(side)
                lengths = np.count_nonzero(spellings[np.unique(words) if side == "source" else words], axis=1)
                numbers = np.histogram(lengths, (0, *(width + 1 for width in SPELLING_WIDTHS)))[0]
                max_words[side, widths] = np.maximum(max_words.get((side, widths), 0), numbers)
        self._min_rows = {
            key: (8 * np.ceil((numbers + 2 * np.sqrt(numbers)) / 8)).astype(int).tolist()
            for key, numbers in max_words.items()
        }

    def __call__(self, batch: dict[str, Ids]) -> dict[str, Ids]:
        """Adds the arrays of rare words to a batch that was read `with_rare_ids`."""
        batch = dict(batch)
        widths = batch["source"].shape[1], batch["target"].shape[1]
        for side, spellings in self._pairs.spellings.items():
            with_characters = with_source_characters if side == "source" else with_target_characters
            first, min_rows = self._pairs.first_rare_id(side), self._min_rows.get((side, widths), ())
            batch.update(with_characters(batch[side], first, spellings, min_rows, self._exact))
        return batch


def with_source_characters(
    source: Ids, first: int, spellings: np.ndarray, min_rows: Sequence[int] = (), exact: bool = False
) -> dict[str, Ids]:
    """Returns sources with local ids, and the characters of their rare words; see `local_sources` for the arguments."""
    local = local_sources(source, first, spellings, min_rows, exact)
    keys = [characters_key("source", width) for width in SPELLING_WIDTHS]
    return {"source": local.ids, **dict(zip(keys, _not_all_empty(local.characters), strict=True))}


def with_target_characters(
    target: Ids, first: int, spellings: np.ndarray, min_rows: Sequence[int] = (), exact: bool = False
) -> dict[str, Ids]:
    """Returns targets with the unknown word for rare words, and the characters and positions of these.

    Args:
        target: int32 array `(batch, time)`; an id of `first` or more is a word whose spelling is in row
            `id - first`.
        first, spellings, min_rows, exact: see `local_sources`.
    """
    positions = np.flatnonzero(target.ravel() >= first)
    words = target.ravel()[positions] - first
    batch = {"target": np.where(target >= first, UNKNOWN, target).astype(np.int32)}
    groups = by_length(spellings[words], min_rows, exact)
    all_characters = _not_all_empty([group.characters for group in groups])
    for width, group, characters in zip(SPELLING_WIDTHS, groups, all_characters, strict=True):
        rows = np.zeros(len(characters), np.int32)
        rows[: len(group.indices)] = positions[group.indices]
        batch[characters_key("target", width)], batch[positions_key(width)] = characters, rows
    return batch


def _not_all_empty(groups: Sequence[Ids]) -> list[Ids]:
    """Adds a row of padding to the first array if all are empty.

    The weights of the characters then have a gradient of 0. Without a gradient, an optimizer would not change its means
    of these weights, except under JAX, and Keras would warn.
    """
    first, *others = groups
    return [first if any(map(len, groups)) else np.zeros((1, first.shape[1]), first.dtype), *others]
