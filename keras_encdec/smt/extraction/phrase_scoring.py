"""Scores extracted phrase pairs as Moses does.

In Moses's letters, which the phrase table format keeps, f is the source and e the target.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from keras_encdec.configuration import check_choice
from keras_encdec.errors import InputError
from keras_encdec.formats import escape
from keras_encdec.smt.extraction.lexical_table import NULL, Integers, LexicalTable, Links, WordPairCounts
from keras_encdec.smt.extraction.phrase_extraction import MAX_PHRASE_LENGTH, phrase_pair_keys
from keras_encdec.smt.extraction.phrase_runs import SEPARATOR

# Maximum number of alignments whose parsed forms are cached. Most pairs have one of a few hundred alignments.
_MAX_PARSED = 50_000

# For each word of one side, the positions of the words of the other side that it is aligned to.
Positions = tuple[tuple[int, ...], ...]
Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class ScoredPhrases:
    """Phrase pairs with the scores that do not depend on the counts of their targets, as columns.

    Attributes:
        phrases: list of bytes. `source ||| target`.
        alignments: list of bytes.
        lexical_source, lexical_target: float64 arrays. lex(f|e) and lex(e|f).
        joint: int64 array. How often each pair was extracted.
        source: int64 array. How often the source of each pair was extracted.
        source_distinct: int64 array. Number of distinct pairs with that source.
    """

    phrases: list[bytes]
    alignments: list[bytes]
    lexical_source: Floats
    lexical_target: Floats
    joint: Integers
    source: Integers
    source_distinct: Integers

    @property
    def targets(self) -> list[bytes]:
        """The target of each pair."""
        return [phrase[phrase.index(SEPARATOR) + len(SEPARATOR) :] for phrase in self.phrases]

    def counts_of_counts(self) -> Integers:
        """Counts the pairs that were extracted r times (entry r) and all pairs (entry 0), see `CountSmoothing`."""
        counts = np.bincount(self.joint[self.joint <= MAX_COUNTED], minlength=MAX_COUNTED + 1)
        counts[0] = len(self.joint)
        return counts

    def lines(self, target: Integers, target_distinct: Integers, smoothing: "CountSmoothing") -> Iterator[bytes]:
        """Yields the lines of the phrase table.

        Args:
            target: int64 array. How often the target of each pair was extracted.
            target_distinct: int64 array. Number of distinct pairs with that target.
            smoothing: CountSmoothing.

        Yields:
            bytes without line ends: `source ||| target ||| p(f|e) lex(f|e) p(e|f) lex(e|f) ||| alignment |||
            count(e) count(f) count(f, e) ||| |||`.
        """
        columns = self.joint, self.source, target, self.source_distinct, target_distinct
        counts = PhraseCounts(*(column.astype(np.float32) for column in columns))
        given_target, given_source = smoothing.probabilities(counts)
        numbers = (
            given_target,
            self.lexical_source,
            given_source,
            self.lexical_target,
            counts.target,
            counts.source,
            counts.joint,
        )
        for phrase, alignment, *values in zip(
            self.phrases, self.alignments, *(_single_precision(column).tolist() for column in numbers), strict=True
        ):
            yield b"%b ||| %.6g %.6g %.6g %.6g ||| %b ||| %.6g %.6g %.6g ||| |||" % (
                phrase,
                *values[:4],
                alignment,
                *values[4:],
            )


def _pairs(keys: Iterable[tuple[bytes, int]]) -> Iterator[tuple[bytes, bytes, bytes, int]]:
    """Yields source, target, links and count of each key."""
    for key, count in keys:
        source, target, links = key.split(SEPARATOR)
        yield source, target, links, count


def score_merged(keys: Iterable[tuple[bytes, int]], lexical: LexicalTable) -> ScoredPhrases:
    """Scores the extracted phrase pairs of whole sources.

    Lexical weights are computed with the alignment with which the pair was extracted most often. Among equally frequent
    alignments, the greatest one is used, as in Moses. An alignment is compared as a list: for each word of the phrase
    whose probability is computed, the ascending positions of the words that it is aligned to. So the two lexical
    weights may use different alignments. The table gets the alignment used for lex(e|f).
    """
    positions = functools.lru_cache(_MAX_PARSED)(_positions)
    phrases: list[bytes] = []
    alignments: list[bytes] = []
    weights: list[tuple[float, float]] = []
    joint: list[int] = []
    source_counts: list[int] = []
    source_distinct: list[int] = []
    for source, source_pairs in groupby(_pairs(keys), key=itemgetter(0)):
        source_words, before = source.split(b" "), len(joint)
        for target, target_pairs in groupby(source_pairs, key=itemgetter(1)):
            target_words, variants = target.split(b" "), list(target_pairs)
            lengths = len(source_words), len(target_words)
            if len(variants) == 1:
                _, _, links, count = variants[0]
                by_source, by_target = positions(links, *lengths)
            else:
                parsed = [(pair[3], positions(pair[2], *lengths)) for pair in variants]
                by_source, by_target = (max((count, by[side]) for count, by in parsed)[1] for side in (0, 1))
                links, count = _links(by_target), sum(pair[3] for pair in variants)
            phrases.append(source + SEPARATOR + target)
            alignments.append(links)
            weights.append(lexical.weights(source_words, target_words, by_source, by_target))
            joint.append(count)
        distinct = len(joint) - before
        source_counts += [sum(joint[before:])] * distinct
        source_distinct += [distinct] * distinct
    return ScoredPhrases(
        phrases,
        alignments,
        *np.array(weights, np.float64).reshape(-1, 2).T,
        *(np.array(column, np.int64) for column in (joint, source_counts, source_distinct)),
    )


def score_phrases(
    sentence_pairs: Sequence[tuple[Sequence[str], Sequence[str]]],
    alignments: Sequence[Links],
    max_length: int = MAX_PHRASE_LENGTH,
    smoothing: str = "none",
) -> Iterator[str]:
    """Extracts and scores every phrase pair, as Moses's `extract`, `score` and `consolidate` do, in memory.

    Each pair gets four scores in this order: p(f|e), lex(f|e), p(e|f), lex(e|f). The first and third are relative
    frequencies among the extracted pairs (Koehn, Och and Marcu 2003), with optional smoothing. The others are lexical
    weights, see `score_merged`. `extract_phrase_table` does the same for text larger than memory.

    Args:
        sentence_pairs: list of `(source_words, target_words)`, not escaped.
        alignments: list of iterables of `(source_index, target_index)`, one for each sentence pair.
        max_length: int. Maximum number of words in a phrase. Defaults to 7.
        smoothing: str. See `CountSmoothing`. Defaults to "none".

    Yields:
        str. Lines as `ScoredPhrases.lines` makes them, tokens escaped, in the order of their UTF-8 bytes.
    """
    sentences = [
        ([escape(word).encode() for word in source], [escape(word).encode() for word in target], sorted(set(links)))
        for (source, target), links in zip(sentence_pairs, alignments, strict=True)
    ]
    words = {word for source, target, _ in sentences for side in (source, target) for word in side}
    vocabulary = {word: number for number, word in enumerate([NULL, *sorted(words - {NULL})])}
    lexical = LexicalTable(vocabulary, WordPairCounts.of_sentences(sentences, vocabulary))
    extracted = Counter(key for sentence in sentences for key in phrase_pair_keys(*sentence, max_length))
    scored = score_merged(sorted(extracted.items()), lexical)
    targets = scored.targets
    target_counts: Counter[bytes] = Counter()
    target_distinct = Counter(targets)
    for target, count in zip(targets, scored.joint.tolist(), strict=True):
        target_counts[target] += count
    counts, distinct = (np.array([table[target] for target in targets]) for table in (target_counts, target_distinct))
    for line in scored.lines(counts, distinct, CountSmoothing(smoothing, scored.counts_of_counts().tolist())):
        yield line.decode()


def _positions(links: bytes, source_length: int, target_length: int) -> tuple[Positions, Positions]:
    """Returns the target positions of each source word, and the source positions of each target word."""
    by_source: list[list[int]] = [[] for _ in range(source_length)]
    by_target: list[list[int]] = [[] for _ in range(target_length)]
    for link in links.split():
        i, j = map(int, link.split(b"-"))
        by_source[i].append(j)
        by_target[j].append(i)
    return _sorted_positions(by_source), _sorted_positions(by_target)


def _sorted_positions(by_word: Sequence[Sequence[int]]) -> Positions:
    return tuple(tuple(sorted(aligned)) for aligned in by_word)


def _links(by_target: Positions) -> bytes:
    return b" ".join(b"%d-%d" % (i, j) for j, sources in enumerate(by_target) for i in sources)


def _single_precision(values: npt.NDArray[np.floating]) -> Floats:
    """Rounds to single precision as Moses does, but keeps values that would become 0."""
    single = values.astype(np.float32).astype(np.float64)
    return np.where(single == 0, values, single)


SMOOTHINGS = ("none", "good_turing", "kneser_ney")
# Counts of counts are kept up to this count.
MAX_COUNTED = 10

Float32 = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class PhraseCounts:
    """Counts of phrase pairs: arrays with an entry for each pair.

    Attributes:
        joint: float32 array. How often the pair was extracted.
        source, target: float32 arrays. How often the source, or the target, of the pair was extracted.
        source_distinct, target_distinct: float32 arrays. Number of distinct pairs with that source, or target.
    """

    joint: Float32
    source: Float32
    target: Float32
    source_distinct: Float32
    target_distinct: Float32


class CountSmoothing:
    """Computes p(f|e) and p(e|f) from the counts of phrase pairs.

    - "none": relative frequencies (Koehn, Och and Marcu 2003).
    - "good_turing": counts r below 9 are multiplied by (r + 1) n_{r+1} / (r n_r), where n_r is 0.1 plus the number of
      pairs extracted r times. A factor is at most 1, and at least the factor of the next lower count.
    - "kneser_ney": modified absolute discounts D of the counts 1, 2 and above (Chen and Goodman 1998). The probability
      mass that they free for a source goes to targets in proportion to the number of distinct pairs that contain the
      target: p(e|f) = (c(f, e) - D + D n(f) n(e) / n) / c(f), where n(f) and n(e) count distinct pairs, and n is their
      total. p(f|e) is computed in the same way. The discounts are at most 0.9, 1.9 and 2.9.

    Args:
        name: str. One of `SMOOTHINGS`.
        counts_of_counts: list of int. Entry r is the number of pairs that were extracted r times, up to
            `MAX_COUNTED`; entry 0 is the number of all pairs.

    Raises:
        ConfigurationError: a ValueError, for another name.
        InputError: for Kneser-Ney, if no pair was extracted exactly once, exactly twice or exactly three times.

    Reference:
        - Foster, Kuhn and Johnson, 2006, "Phrasetable Smoothing for Statistical Machine Translation" (EMNLP)

    Example:

    >>> ones = np.ones(1, np.float32)
    >>> CountSmoothing("none", [9, 5, 3, 1]).probabilities(PhraseCounts(ones, 4 * ones, 2 * ones, ones, ones))
    (array([0.5], dtype=float32), array([0.25], dtype=float32))
    """

    def __init__(self, name: str, counts_of_counts: Sequence[int]) -> None:
        check_choice("smoothing", name, SMOOTHINGS)
        self._name, self._total = name, np.float32(counts_of_counts[0])
        pairs_by_count = np.zeros(MAX_COUNTED + 1, np.float32)
        given = counts_of_counts[1 : MAX_COUNTED + 1]
        pairs_by_count[1 : len(given) + 1] = given
        if name == "good_turing":
            self._factors = _good_turing_factors(pairs_by_count)
        elif name == "kneser_ney":
            self._discounts = _kneser_ney_discounts(pairs_by_count)

    def probabilities(self, counts: PhraseCounts) -> tuple[Float32, Float32]:
        """Computes p(f|e) and p(e|f) of phrase pairs: float32 arrays with an entry for each pair."""
        given_target = given_source = counts.joint
        if self._name == "good_turing":
            given_target = given_source = counts.joint * self._factor(counts.joint)
        elif self._name == "kneser_ney":
            discount = self._discounts[np.minimum(counts.joint, 3).astype(int)]
            # In the order of Moses's operations, so that results agree to the last digit.
            kept = counts.joint - discount
            free = discount * counts.source_distinct / counts.source
            given_source = kept + counts.source * free * (counts.target_distinct / self._total)
            free = discount * counts.target_distinct / counts.target
            given_target = kept + counts.target * free * (counts.source_distinct / self._total)
        return given_target / counts.target, given_source / counts.source

    def _factor(self, joint: Float32) -> Float32:
        kept = len(self._factors) - 1  # counts from here on are not discounted
        factors = self._factors[np.minimum(joint, kept).astype(int)]
        return np.where(joint < kept, factors, np.float32(1))


def _good_turing_factors(pairs_by_count: Float32) -> Float32:
    factors = [np.float32(0.01)]
    for count in range(1, MAX_COUNTED):
        factor = (count + 1) / count * ((float(pairs_by_count[count + 1]) + 0.1) / (float(pairs_by_count[count]) + 0.1))
        factors.append(max(np.float32(min(factor, 1)), factors[-1]))
    return np.array(factors, np.float32)


def _kneser_ney_discounts(pairs_by_count: Float32) -> Float32:
    for count in (1, 2, 3):
        if not pairs_by_count[count]:
            times = ("once", "twice", "three times")[count - 1]
            raise InputError(
                f"found no phrase pair that was extracted {times}",
                "expected such pairs, from which Kneser-Ney smoothing estimates its discounts",
                "give more text, or use another --smoothing",
            )
    one, two, three, four = pairs_by_count[1:5]
    share = one / (one + 2 * two)
    discounts = [0, 1 - 2 * share * two / one, 2 - 3 * share * three / two, 3 - 4 * share * four / three]
    return np.minimum(np.array(discounts, np.float32), np.array([0, 0.9, 1.9, 2.9], np.float32))
