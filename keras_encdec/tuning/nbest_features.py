"""An n-best list as arrays: what tuning needs of it."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, InputLines, model_words, parse_features
from keras_encdec.formats.encodings import FileEncoding, undecodable
from keras_encdec.smt.nbest_sentences import hypotheses_by_sentence
from keras_encdec.smt.word_penalty import with_word_penalty
from keras_encdec.tuning.corpus_metric import Array, CorpusMetric


@dataclasses.dataclass(frozen=True)
class NBestFeatures:
    """The hypotheses of an n-best list, those of a sentence in a row.

    Attributes:
        lengths: dict of str to int: the names of the features, and how many values each has.
        features: float64 array `(hypotheses, values)`, the values in the order of `lengths`.
        counts: float64 array `(hypotheses, counts)`, see `CorpusMetric.counts`.
        starts: int array `(sentences,)`. Where the hypotheses of each sentence begin.
        metric: CorpusMetric.
        missing: int. Sentences without hypotheses. Each has one here, an empty one whose features are 0.
    """

    lengths: Mapping[str, int]
    features: Array
    counts: Array
    starts: Array
    metric: CorpusMetric
    missing: int = 0

    @property
    def sentence_of(self) -> Array:
        """The number of the sentence of each hypothesis: int array `(hypotheses,)`."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self.features)))

    def best(self, weights: Array) -> Array:
        """The hypothesis of each sentence with the highest weighted sum, the first of equals.

        Args:
            weights: float array `(values,)`.

        Returns:
            int array `(sentences,)`.
        """
        totals = self.totals(weights)
        highest = np.maximum.reduceat(totals, self.starts)
        return first_of_each(totals == highest[self.sentence_of], self.starts)

    def totals(self, weights: Array) -> Array:
        """The weighted sum of each hypothesis: float64 array `(hypotheses,)`."""
        # Not by BLAS: to wait for its threads takes longer than the product on processors that others use, too.
        return np.einsum("ij,j->i", self.features, weights)

    def score(self, weights: Array) -> float:
        """The metric's score of the best hypotheses, as sacrebleu gives it, 0 to 100."""
        return self.metric.score(self.counts[self.best(weights)].sum(axis=0))

    def quick_score(self, weights: Array) -> float:
        """The same within rounding, without sacrebleu."""
        return float(self.metric.scores(self.counts[self.best(weights)].sum(axis=0)))

    def to_array(self, weights: Mapping[str, Sequence[float]]) -> Array:
        """Weights by name as a float64 array `(values,)`, 0 where there are none."""
        return np.array(
            [value for name, length in self.lengths.items() for value in weights.get(name, [0.0] * length)], np.float64
        )

    def to_weights(self, array: Array) -> dict[str, list[float]]:
        """An array `(values,)` as weights by name."""
        ends = np.cumsum(list(self.lengths.values()))
        return {
            name: values.tolist() for name, values in zip(self.lengths, np.split(array, ends[:-1]), strict=True)
        }


def first_of_each(chosen: Array, starts: Array) -> Array:
    """The first row that is chosen of each sentence, of which each has one: int array `(sentences,)`."""
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
    """Reads n-best lists of the same sentences, as several runs of a decoder leave them.

    Args:
        paths: the lists, plain or gzipped.
        references: the files that the metric's references are from, named in errors.
        metric: CorpusMetric.
        word_penalty: bool. Whether to add the feature `WordPenalty0`. Defaults to `False`.
        lengths: dict of the names of features to how many values each has. Defaults to those of the lists.
        encoding: str. Of the lists. Defaults to `None`: UTF-8.

    Returns:
        NBestFeatures.

    Raises:
        InputError: when a list cannot be read, a line lacks a feature or has another number of values, or the
            sentences are not those of the references.
    """
    reader = _Reader(metric, references[0], word_penalty, dict(lengths or {}), lengths is None, encoding)
    for path in paths:
        with InputLines(path) as lines:
            reader.read(lines)
    return reader.result()


class _Reader:
    def __init__(self, metric, reference, word_penalty, lengths, opens, encoding):
        self._metric, self._reference, self._encoding = metric, reference, FileEncoding(encoding)
        self._word_penalty, self._lengths, self._opens = word_penalty, lengths, opens
        self._first_place = None
        self._known = set()  # sentence, text and features of each hypothesis
        self._sentences, self._values, self._counts = [], [], []

    def read(self, lines):
        number = -1
        for sentence in hypotheses_by_sentence(lines):
            if self._word_penalty:
                sentence = with_word_penalty(sentence, lines.path)
            number = sentence.id
            if number >= self._metric.sentences:
                line = sentence.hypotheses[0].line_number
                raise self._other_sentences(f"found the id {number}", lines.path, line)
            counts = {}
            for hypothesis in sentence.hypotheses:
                text = self._text(hypothesis.parsed.hypothesis, lines.path, hypothesis.line_number)
                values = self._features(hypothesis, lines.path)
                key = number, text, tuple(values.items())
                if key in self._known:
                    continue
                self._known.add(key)
                if text not in counts:
                    counts[text] = self._metric.counts(number, text)
                self._sentences.append(number)
                self._values.append(values)
                self._counts.append(counts[text])
        if number + 1 < self._metric.sentences:
            raise self._other_sentences(f"found the last id {number}", lines.path, lines.line_number)

    def _other_sentences(self, found, path, line):
        last = self._metric.sentences - 1
        return InputError(
            found, f"expected ids from 0 to {last}, as {self._reference} has {last + 1:,} lines",
            "give the references of the sentences that were translated", path, line,
        )  # fmt: skip

    def _text(self, hypothesis, path, line):
        try:
            return " ".join(model_words(self._encoding.decode(hypothesis)))
        except UnicodeDecodeError as error:
            raise undecodable(error, path, line) from None

    def _features(self, hypothesis, path):
        values, line = parse_features(hypothesis.parsed.features), hypothesis.line_number
        if self._first_place is None and self._opens:
            self._first_place = path, line
            self._lengths.update({name: len(numbers) for name, numbers in values.items()})
        for name, numbers in values.items():
            if "_" in name and self._opens:
                self._lengths.setdefault(name, len(numbers))
            expected = self._lengths.get(name, 0)
            if expected != len(numbers) and not (expected == 0 and "_" in name):
                raise self._other_features(f"found {len(numbers)} values of {name}", f"expected {expected}", path, line)
        for name, length in self._lengths.items():
            if name not in values and "_" not in name:  # a sparse feature is on a line only where it is not 0
                raise self._other_features(f"found no values of {name}", f"expected {length}", path, line)
        return {name: tuple(numbers) for name, numbers in values.items() if name in self._lengths}

    def _other_features(self, found, expected, path, line):
        as_in = "the list that was tuned on"
        if self._first_place:
            as_in = f"line {self._first_place[1]} of {self._first_place[0]}"
        return InputError(found, f"{expected}, as in {as_in}", "score all of the list, or repair the line", path, line)

    def result(self):
        sentences, zeros = np.array(self._sentences), {name: (0.0,) * n for name, n in self._lengths.items()}
        absent = np.setdiff1d(np.arange(self._metric.sentences), sentences)
        rows = [sum((values.get(name, zeros[name]) for name in zeros), ()) for values in self._values]
        rows += [(0.0,) * sum(self._lengths.values())] * len(absent)
        counts = self._counts + [self._metric.counts(number, "") for number in absent]
        order = np.argsort(np.concatenate([sentences, absent]), kind="stable")
        features, counts = np.array(rows, np.float64)[order], np.array(counts)[order]
        in_order = np.concatenate([sentences, absent])[order]
        starts = np.searchsorted(in_order, np.arange(self._metric.sentences))
        return NBestFeatures(self._lengths, features, counts, starts, self._metric, len(absent))
