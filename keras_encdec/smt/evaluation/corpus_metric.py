"""BLEU, chrF and TER as in sacrebleu, computed from sums of the counts of sentences."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from keras_encdec.configuration import check_choice
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, escape, read_sentences, unescape
from keras_encdec.formats.fields import check_texts
from keras_encdec.runtime.imports import import_sacrebleu
from keras_encdec.runtime.progress import counted

METRICS = ("bleu", "chrf", "ter")
TOKENIZERS = ("none", "13a", "intl", "char", "zh")
# The index of the reference's length among the counts of a metric: in words for BLEU and TER, in characters for chrF.
REFERENCE_LENGTH = 1

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class CorpusMetric:
    """A corpus metric as in sacrebleu, split into counts per sentence and the score of their sums.

    Tuning and tests of significance score a corpus many thousands of times, with different hypotheses. Sacrebleu counts
    each hypothesis once. Sums of the counts are scored here, for many corpora at once.

    Args:
        name: str. "bleu", "chrf" or "ter".
        references: list of lists of str. Each list has one reference for every sentence.
        tokenize: str. The tokenizer of BLEU, one of sacrebleu's: "none" for tokenized text, "13a" for raw text.
            Defaults to "none".

    Attributes:
        name: str.
        label: str. Sacrebleu's name of the metric, such as "BLEU" or "chrF2".
        signature: str. Sacrebleu's signature, which names all settings of the score.
        sentences: int. Number of sentences.
        size: int. Number of counts of a sentence.
        scores: function that takes an array of counts `(..., size)` and returns their scores, an array `(...)`, 0 to
            100.

    Raises:
        ConfigurationError: a ValueError, for an unknown name or tokenizer.
        ValueError: for a text in place of a list of references, such as a single list of references.
        ImportError: if sacrebleu is not installed.

    Example:

    >>> metric = CorpusMetric("bleu", [["the cat sat on the mat"]])
    >>> counts = metric.counts(0, "the cat sat on a mat")
    >>> counts.tolist()  # lengths, n-grams that match, n-grams
    [6.0, 6.0, 5.0, 3.0, 2.0, 1.0, 6.0, 5.0, 4.0, 3.0]
    >>> round(float(metric.scores(counts)), 2), round(metric.score(counts), 2)
    (53.73, 53.73)
    """

    def __init__(self, name: str, references: Sequence[Sequence[str]], tokenize: str = "none") -> None:
        check_choice("metric", name, METRICS)
        check_choice("tokenize", tokenize, TOKENIZERS)
        references = list(references)  # an iterator could be read only once
        for texts in references:
            check_texts(texts)
        metrics = import_sacrebleu().metrics
        self.name = name
        self.size: int
        self.scores: Callable[[Array], Array]
        self._metric, self.size, self.scores = {
            "bleu": (metrics.BLEU(tokenize=tokenize, force=True), 10, bleu_scores),
            "chrf": (metrics.CHRF(), 18, chrf_scores),
            "ter": (metrics.TER(), 2, ter_scores),
        }[name]
        self._references = self._metric._cache_references(references)
        self.sentences = len(self._references)
        self.signature = str(self._metric.get_signature())
        self.label = self._metric._compute_score_from_stats([0] * self.size).name

    def counts(self, sentence: int, hypothesis: str) -> Array:
        """Returns the counts that score a hypothesis of a sentence, numbered from 0: float64 array `(size,)`."""
        text = self._metric._preprocess_segment(hypothesis)
        return np.array(self._metric._compute_segment_statistics(text, self._references[sentence]), np.float64)

    def corpus_counts(self, hypotheses: Sequence[str]) -> Array:
        """Returns the counts of one hypothesis of each sentence: float64 array `(sentences, size)`.

        Raises:
            ValueError: for another number of hypotheses.
        """
        if len(hypotheses) != self.sentences:
            raise ValueError(f"found {len(hypotheses)} hypotheses, expected one for each of {self.sentences} sentences")
        return np.stack([self.counts(number, hypothesis) for number, hypothesis in enumerate(hypotheses)])

    def score(self, counts: Array) -> float:
        """Computes the score with sacrebleu, 0 to 100, from the sum of the counts of all sentences `(size,)`."""
        statistics = [int(count) if count == int(count) else float(count) for count in counts.tolist()]
        return float(self._metric._compute_score_from_stats(statistics).score)

    def sentence_scores(self, counts: Array) -> Array:
        """Computes the scores of single hypotheses, 0 to 1, from counts `(..., size)`.

        BLEU is smoothed, see `smoothed_sentence_bleu`.
        """
        return smoothed_sentence_bleu(counts) if self.name == "bleu" else self.scores(counts) / 100


def bleu_scores(counts: Array) -> Array:
    """Computes BLEU of corpora, with sacrebleu's default smoothing, "exp".

    Args:
        counts: array `(..., 10)`: length of the hypotheses; length of the references; numbers of 1-, 2-, 3- and 4-grams
            that match; numbers of 1-, 2-, 3- and 4-grams in the hypotheses.

    Returns:
        float64 array `(...)`, 0 to 100.
    """
    length, reference = counts[..., 0], counts[..., 1]
    matches, totals = counts[..., 2:6], counts[..., 6:10]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # An order without a match counts as half a match, the next as a quarter, and so on.
        halved = np.exp2(-np.cumsum(matches == 0, axis=-1))
        precisions = 100 * np.where(matches > 0, matches, halved) / totals
        penalty = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        scores = penalty * np.exp(np.log(precisions).sum(axis=-1) / 4)
    return np.where((totals > 0).all(axis=-1) & (matches > 0).any(axis=-1), scores, 0.0)


def smoothed_sentence_bleu(counts: Array) -> Array:
    """Computes BLEU+1 of sentences: BLEU with 1 added to the counts of 2-, 3- and 4-grams.

    1 is also added to the length of the reference, as tuning for BLEU+1 otherwise makes translations too short.

    Args:
        counts: array `(..., 10)`, see `bleu_scores`.

    Returns:
        float64 array `(...)`, 0 to 1.

    Reference:
        - Lin and Och, 2004, "ORANGE: a Method for Evaluating Automatic Evaluation Metrics for Machine Translation"
        - Nakov et al., 2012, "Optimizing for Sentence-Level BLEU+1 Yields Short Translations"
    """
    added = np.array([0, 1, 1, 1])
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = (counts[..., 2:6] + added) / (counts[..., 6:10] + added)
        penalty = np.exp(np.minimum(0, 1 - (counts[..., 1] + 1) / counts[..., 0]))
        scores = penalty * np.exp(np.log(precisions).sum(axis=-1) / 4)
    return np.where(counts[..., 2] > 0, scores, 0.0)


def chrf_scores(counts: Array) -> Array:
    """Computes chrF2 of corpora.

    Args:
        counts: array `(..., 18)`: for each order 1 to 6, the number of character n-grams of the hypotheses, of the
            references, and of matches.

    Returns:
        float64 array `(...)`, 0 to 100.
    """
    hypothesis, reference, matches = (counts[..., start::3] for start in range(3))
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(counted, matches / hypothesis, 0.0).sum(axis=-1) / orders
        recall = np.where(counted, matches / reference, 0.0).sum(axis=-1) / orders
        scores = 100 * 5 * precision * recall / (4 * precision + recall)  # beta is 2
    return np.where(precision + recall > 0, scores, 0.0)


def ter_scores(counts: Array) -> Array:
    """Computes TER of corpora in percent, `(...)`, from counts `(..., 2)`: edits, and words of the references."""
    edits, words = counts[..., 0], counts[..., 1]
    return 100 * np.where(words > 0, edits / np.maximum(words, 1e-300), (edits > 0).astype(np.float64))


def read_references(paths: Sequence[FilePath], encoding: str | None = None, unescaped: bool = True) -> list[list[str]]:
    """Reads reference translations.

    Args:
        paths: files with one sentence per line. All have the same number of lines.
        encoding: str. Defaults to `None`: UTF-8.
        unescaped: bool. Whether Moses's escapes are removed. Defaults to `True`.

    Returns:
        list of lists of str, one for each file.

    Raises:
        InputError: if a file cannot be read, or its number of lines differs from that of the first.
    """
    files = [read_text(path, encoding, unescaped) for path in paths]
    for path, sentences in zip(paths, files, strict=True):
        check_lines(path, len(sentences), paths[0], len(files[0]))
    return files


def read_text(path: FilePath, encoding: str | None = None, unescaped: bool = False) -> list[str]:
    """Reads the sentences of a file, and removes Moses's escapes if `unescaped`."""
    sentences = read_sentences(path, encoding)
    return [unescape(sentence) for sentence in sentences] if unescaped else sentences


def is_escaped(sentences: Sequence[str]) -> bool | None:
    """Returns whether text has Moses's escapes; `None` for text without any characters that Moses escapes."""
    if any(unescape(sentence) != sentence for sentence in sentences):
        return True
    return False if any(escape(sentence) != sentence for sentence in sentences) else None


def check_lines(path: FilePath, lines: int, reference: FilePath, expected: int) -> None:
    """Raises InputError unless a file has the same number of lines as the references."""
    if lines != expected:
        remedy = "give files of the same sentences in the same order"
        found, wanted = f"found {counted(lines, 'lines')}", f"expected {expected:,}, the number in {reference}"
        raise InputError(found, wanted, remedy, path)
