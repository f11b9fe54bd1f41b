"""Cross-entropies of the sentence pairs of a corpus, in windows and in shards."""

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_encdec.formats import FilePath, Record, model_words, pair_format
from keras_encdec.formats.record_reader import LEFT_OUT, RecordReader
from keras_encdec.runtime.shards import Shard, ShardResult, windows
from keras_encdec.scoring.text_scorer import ModelOrPath
from keras_encdec.selection.cross_entropies import CrossEntropies, open_entropies
from keras_encdec.selection.selection_options import ScoringMethod, SelectionOptions

# Number of records that are scored together.
WINDOW = 4096


@dataclasses.dataclass(frozen=True)
class Window:
    """Consecutive records, and the indices of the records that are scored."""

    records: Sequence[Record]
    scored: Sequence[int]


class PairFilter:
    """Chooses the records that are scored, and counts the others.

    Args:
        max_tokens: int. A pair with a longer side has no score; `None` for no limit.
        deduplicate: bool. Whether only the first of several pairs with the same text is scored.

    Attributes:
        duplicates: int. Number of pairs so far with the same text as an earlier pair.
    """

    def __init__(self, max_tokens: int | None, deduplicate: bool) -> None:
        self._max_tokens = max_tokens
        self._seen: set[bytes] | None = set() if deduplicate else None
        self.duplicates = 0

    def windows(self, records: Iterable[Record]) -> Iterator[Window]:
        """Yields the records in windows of 4,096; the last window may have fewer."""
        for window in windows(records, WINDOW):
            yield Window(window, [i for i, record in enumerate(window) if self._is_scored(record)])

    def _is_scored(self, record: Record) -> bool:
        if record.problem is not None:
            return False
        if self._seen is not None:
            # A line feed, unlike a tab, is in no text.
            text = f"{record.source}\n{record.target}".encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(text, digest_size=16).digest()
            if digest in self._seen:
                self.duplicates += 1
                return False
            self._seen.add(digest)
        return has_score((record.source, record.target), self._max_tokens)


def has_score(pair: Sequence[str], max_tokens: int | None) -> bool:
    """Returns whether each side of a pair has 1 to `max_tokens` tokens; `None` for no limit."""
    limit = math.inf if max_tokens is None else max_tokens
    return all(0 < len(model_words(side, factored=False)) <= limit for side in pair)


def window_entropies(entropies: Sequence[CrossEntropies], window: Window) -> list[np.ndarray]:
    """Computes the cross-entropies of the records that are scored, by each model."""
    pairs = [(window.records[i].source, window.records[i].target) for i in window.scored]
    return [each(pairs) for each in entropies]


def score_rows(method: ScoringMethod, window: Window, values: Sequence[np.ndarray]) -> np.ndarray:
    """Returns a float array `(1 + models, records)`: scores, and cross-entropies by each model.

    A record that is not scored gets the score -inf and the cross-entropies nan. A record gets -inf, too, if one of its
    cross-entropies is nan, see `TranslationEntropies`.
    """
    rows = np.full((1 + len(values), len(window.records)), np.nan)
    if window.scored:
        rows[:, window.scored] = [method(*values), *values]
    rows[0, np.isnan(rows[0])] = -np.inf
    return rows


class CorpusFiles(NamedTuple):
    """The files of a selection, see `select_pairs`."""

    format: str
    input: FilePath
    source: FilePath | None
    output: FilePath
    source_output: FilePath | None
    scores: FilePath | None

    @property
    def inputs(self) -> list[FilePath]:
        """The files whose lines belong together: line n of each is pair n."""
        return [self.input] if self.source is None else [self.source, self.input]

    def open_reader(self, options: SelectionOptions, *parts: FilePath) -> RecordReader[Record]:
        """Opens a reader of the pairs, or of those in parts of the files."""
        *source, target = parts or self.inputs
        given = source[0] if source else None
        reader = pair_format(self.format).open_reader(target, given, options.encoding, options.on_error)
        reader.kept = LEFT_OUT
        return reader


class ShardEntropies:
    """Computes the cross-entropies of the pairs in a shard, in a worker.

    Args:
        files: CorpusFiles.
        names: list of str, the names of the models in order.
        models: see `select_pairs`.
        options: SelectionOptions.
    """

    def __init__(
        self, files: CorpusFiles, names: Sequence[str], models: Mapping[str, ModelOrPath], options: SelectionOptions
    ) -> None:
        self._files, self._options = files, options
        self._entropies = list(open_entropies(names, models, options))

    def __call__(self, shard: Shard) -> ShardResult:
        """Returns a float64 array `(pairs, models)` as bytes, with nan for pairs that are not scored.

        Equal pairs in different shards are all scored.
        """
        rows = []
        with self._files.open_reader(self._options, *shard.parts) as reader:
            reader.counts_errors = False  # they are counted when the pairs are selected
            for window in PairFilter(self._options.max_tokens, deduplicate=False).windows(reader):
                values = np.full((len(window.records), len(self._entropies)), np.nan)
                values[window.scored] = np.transpose(window_entropies(self._entropies, window))
                rows.append(values)
        return ShardResult((np.concatenate(rows).tobytes(),), {})
