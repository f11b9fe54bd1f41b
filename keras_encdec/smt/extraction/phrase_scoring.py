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

from keras_encdec.formats import escape
from keras_encdec.smt.extraction.count_smoothing import MAX_COUNTED, CountSmoothing, PhraseCounts
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

    def lines(self, target: Integers, target_distinct: Integers, smoothing: CountSmoothing) -> Iterator[bytes]:
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
        ([escape(word).encode() for word in source], [escape(word).encode() for word in target], set(links))
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
