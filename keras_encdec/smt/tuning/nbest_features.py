"""Reads n-best lists into arrays, for tuning."""

import contextlib
import dataclasses
import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from keras_encdec.errors import InputError, shortened
from keras_encdec.formats import FilePath, InputLines, parse_features
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.formats.feature_weights import Weights
from keras_encdec.formats.fields import LARGEST
from keras_encdec.formats.nbest import NBestHypothesis, hypotheses_by_sentence, with_word_penalty
from keras_encdec.runtime.progress import counted
from keras_encdec.smt.evaluation.corpus_metric import Array, CorpusMetric, Indices


@dataclasses.dataclass(frozen=True)
class NBestFeatures:
    """The hypotheses of an n-best list. Those of one sentence are consecutive rows.

    Attributes:
        lengths: dict from the name of a feature to its number of values.
        features: float64 array `(hypotheses, values)`. The values of a row are in the order of `lengths`.
        counts: float64 array `(hypotheses, counts)`, see `CorpusMetric.counts`.
        starts: int array `(sentences,)`. The first row of each sentence.
        metric: CorpusMetric.
        missing: int. Number of sentences without hypotheses. Each has one row: an empty hypothesis, all features 0.
    """

    lengths: Mapping[str, int]
    features: Array
    counts: Array
    starts: Indices
    metric: CorpusMetric
    missing: int = 0

    @property
    def sentence_of(self) -> Indices:
        """The number of the sentence of each hypothesis: int array `(hypotheses,)`."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self.features)))

    @property
    def varies(self) -> npt.NDArray[np.bool_]:
        """Whether each value differs between hypotheses of a sentence: bool array `(values,)`."""
        lowest, highest = (extreme.reduceat(self.features, self.starts) for extreme in (np.minimum, np.maximum))
        differs: npt.NDArray[np.bool_] = np.any(lowest != highest, axis=0)
        return differs

    def best(self, weights: Array) -> Indices:
        """Finds the row of each sentence with the highest weighted sum, `(sentences,)`; of equal sums, the first."""
        totals = self.totals(weights)
        highest = np.maximum.reduceat(totals, self.starts)
        return first_of_each(totals == highest[self.sentence_of], self.starts)

    def totals(self, weights: Array) -> Array:
        """Computes the weighted sum of each hypothesis: float64 array `(hypotheses,)`."""
        # Without BLAS: on busy processors, waiting for its threads takes longer than the product.
        totals: Array = np.einsum("ij,j->i", self.features, weights)
        return totals

    def score(self, weights: Array) -> float:
        """Computes the score of the best hypotheses with sacrebleu, 0 to 100."""
        return self.metric.score(self.counts[self.best(weights)].sum(axis=0))

    def quick_score(self, weights: Array) -> float:
        """Computes the same as `score` without sacrebleu; the results differ by rounding only."""
        return float(self.metric.scores(self.counts[self.best(weights)].sum(axis=0)))

    def to_array(self, weights: Weights) -> Array:
        """Converts weights by name to a float64 array `(values,)`; missing weights are 0."""
        return np.array(
            [value for name, length in self.lengths.items() for value in weights.get(name, [0.0] * length)], np.float64
        )

    def to_weights(self, array: Array) -> dict[str, list[float]]:
        """Converts an array `(values,)` to weights by name."""
        ends = np.cumsum(list(self.lengths.values()))
        return {name: values.tolist() for name, values in zip(self.lengths, np.split(array, ends[:-1]), strict=True)}


def first_of_each(chosen: npt.NDArray[np.bool_], starts: Indices) -> Indices:
    """Finds the first chosen row of each sentence, `(sentences,)`. Each has one, and `starts` has its first row."""
    rows = np.flatnonzero(chosen)
    return rows[np.searchsorted(rows, starts)]


def read_nbest_features(
    paths: Sequence[FilePath],
    references: Sequence[FilePath],
    metric: CorpusMetric,
    *,
    word_penalty: bool = False,
    lengths: Mapping[str, int] | None = None,
    encoding: str | None = None,
) -> NBestFeatures:
    """Reads n-best lists of the same sentences, such as those of several runs of a decoder.

    Args:
        paths: the lists, plain or gzipped.
        references: the files of the metric's references, for errors.
        metric: CorpusMetric.
        word_penalty: bool. Whether to add the feature `WordPenalty0`. Defaults to `False`.
        lengths: dict from the name of a feature to its number of values. Defaults to the features of the lists.
        encoding: str. Encoding of the lists. Defaults to `None`: UTF-8.

    Raises:
        InputError: if a list cannot be read or has no features, a line lacks a feature or has too few or too many
            values of it, or the sentences are not those of the references.
    """
    layout, decoding = _Layout(lengths, word_penalty), FileEncoding(encoding)
    rows: list[tuple[float, ...]] = []
    counts: list[Array] = []
    starts: list[int] = []
    missing = 0
    with contextlib.ExitStack() as opened:
        lists = [opened.enter_context(InputLines(path)) for path in paths]
        for number, hypotheses in _merged(lists):
            if number >= metric.sentences:
                path, first = hypotheses[0]
                raise _other_sentences(f"found the id {number}", references, metric, path, first.line_number)
            path, last = hypotheses[-1]
            for absent in range(len(starts), number):
                missing += 1
                starts.append(len(rows))
                rows.append(())
                counts.append(metric.counts(absent, ""))
            starts.append(len(rows))
            counts_by_text: dict[str, Array] = {}
            for text, row in _distinct(hypotheses, layout, decoding):
                if text not in counts_by_text:
                    counts_by_text[text] = metric.counts(number, text)
                rows.append(row)
                counts.append(counts_by_text[text])
    if len(starts) < metric.sentences:
        raise _other_sentences(f"found the last id {number}", references, metric, path, last.line_number)
    if not layout.lengths:
        found, expected = "found no features in the list", "expected features in its third field, such as LM0= -12.3"
        raise InputError(found, expected, "write the list with its features", path)
    features = np.zeros((len(rows), sum(layout.lengths.values())))
    for index, values in enumerate(rows):
        features[index, : len(values)] = values
    return NBestFeatures(layout.lengths, features, np.array(counts), np.array(starts), metric, missing)


def _distinct(
    hypotheses: Iterable[tuple[FilePath, NBestHypothesis]], layout: "_Layout", encoding: FileEncoding
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yields the text and the values of each distinct hypothesis of a sentence."""
    seen: set[tuple[str, tuple[float, ...]]] = set()
    for path, hypothesis in hypotheses:
        text = " ".join(hypothesis.words(encoding, path))
        row = layout.row(hypothesis, path)
        if (key := (text, _without_zeros(row))) not in seen:
            seen.add(key)
            yield text, row


def _without_zeros(row: tuple[float, ...]) -> tuple[float, ...]:
    """Removes the zeros at the end of a row: rows read before a new sparse feature was found are shorter, but equal."""
    size = len(row)
    while size and not row[size - 1]:
        size -= 1
    return row[:size]


def _merged(lists: list[InputLines]) -> Iterator[tuple[int, list[tuple[FilePath, NBestHypothesis]]]]:
    """Yields the id of each sentence and its hypotheses in all lists, with the path of the list."""
    with_paths = (zip(itertools.repeat(lines.path), hypotheses_by_sentence(lines)) for lines in lists)
    sentences = heapq.merge(*with_paths, key=lambda item: item[1].id)
    for number, group in itertools.groupby(sentences, key=lambda item: item[1].id):
        yield number, [(path, hypothesis) for path, sentence in group for hypothesis in sentence.hypotheses]


def _other_sentences(
    found: str, references: Sequence[FilePath], metric: CorpusMetric, path: FilePath, line: int
) -> InputError:
    last = metric.sentences - 1
    expected = f"expected ids from 0 to {last}, as {references[0]} has {counted(last + 1, 'lines')}"
    return InputError(found, expected, "give the references of the sentences that were translated", path, line)


class _Layout:
    """The columns of the features: those of the first line, and sparse features when they first occur."""

    def __init__(self, lengths: Mapping[str, int] | None, word_penalty: bool) -> None:
        self.lengths = dict(lengths or {})
        self._is_open, self._word_penalty = lengths is None, word_penalty
        self._first_line: tuple[FilePath, int] | None = None

    def row(self, hypothesis: NBestHypothesis, path: FilePath) -> tuple[float, ...]:
        """Returns the values of a line, or raises InputError if its features are not those of the first line.

        The row of an early line lacks the sparse features that later lines add; they count as 0.
        """
        if self._word_penalty:
            hypothesis = with_word_penalty(hypothesis, path)
        values, line = parse_features(hypothesis.parsed.features), hypothesis.line_number
        if self._is_open and self._first_line is None:
            self._first_line = path, line
            self.lengths.update({name: len(numbers) for name, numbers in values.items()})
        for name, numbers in values.items():
            if "_" in name and self._is_open:
                self.lengths.setdefault(name, len(numbers))
            expected = self.lengths.get(name, 0)
            if expected != len(numbers) and not (expected == 0 and "_" in name):
                raise self._error(f"found {counted(len(numbers), 'values')} of {shortened(name)}", expected, path, line)
        row: list[float] = []
        for name, length in self.lengths.items():
            if name not in values and "_" not in name:  # a sparse feature is on a line only where it is not 0
                raise self._error(f"found no values of {shortened(name)}", length, path, line)
            numbers = values.get(name, [0.0] * length)
            row += numbers
            if any(abs(number) > LARGEST for number in numbers):
                found = f"found a value of {shortened(name)} beyond {LARGEST:g}"
                raise InputError(found, "expected a smaller number", "repair the line", path, line)
        return tuple(row)

    def _error(self, found: str, expected: int, path: FilePath, line: int) -> InputError:
        as_in = "the list that was tuned on"
        if self._first_line:
            as_in = f"line {self._first_line[1]} of {self._first_line[0]}"
        remedy = "score the whole list, or repair the line"
        return InputError(found, f"expected {expected}, as in {as_in}", remedy, path, line)
