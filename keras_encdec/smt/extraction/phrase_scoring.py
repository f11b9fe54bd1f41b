"""Phrase tables from word-aligned sentence pairs, as Moses scores them.

In Moses's letters, which the phrase table formats keep, f is the source and e the target.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from keras_encdec.formats import escape
from keras_encdec.smt.extraction.count_smoothing import MAX_COUNTED, CountSmoothing, PhraseCounts
from keras_encdec.smt.extraction.lexical_table import NULL, LexicalTable, Links, WordPairCounts
from keras_encdec.smt.extraction.phrase_extraction import MAX_PHRASE_LENGTH, phrase_pair_keys
from keras_encdec.smt.extraction.phrase_runs import SEPARATOR

# Alignments whose parsed forms are kept at most; most pairs have one of a few hundred.
_MOST_PARSED = 50_000

# For each word of one side, its positions on the other.
Positions = tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class ScoredPhrases:
    """Phrase pairs with all that their sources and their words say of them, in columns.

    Attributes:
        phrases: list of bytes. `source ||| target`.
        alignments: list of bytes.
        lexical_source, lexical_target: float64 arrays. lex(f|e) and lex(e|f).
        joint: int64 array. How often each pair was extracted.
        source: int64 array. How often its source was.
        source_distinct: int64 array. Number of the distinct pairs with its source.
    """

    phrases: list[bytes]
    alignments: list[bytes]
    lexical_source: np.ndarray
    lexical_target: np.ndarray
    joint: np.ndarray
    source: np.ndarray
    source_distinct: np.ndarray

    @property
    def targets(self) -> list[bytes]:
        """The target of each pair."""
        return [phrase[phrase.index(SEPARATOR) + len(SEPARATOR) :] for phrase in self.phrases]

    def counts_of_counts(self) -> np.ndarray:
        """Number of pairs that were extracted so many times, and of all pairs in entry 0: see `CountSmoothing`."""
        counts = np.bincount(self.joint[self.joint <= MAX_COUNTED], minlength=MAX_COUNTED + 1)
        counts[0] = len(self.joint)
        return counts

    def lines(self, target: np.ndarray, target_distinct: np.ndarray, smoothing: CountSmoothing) -> Iterator[bytes]:
        """The lines of the phrase table.

        Args:
            target: int64 array. How often the target of each pair was extracted.
            target_distinct: int64 array. Number of the distinct pairs with it.
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


def score_merged(keys: Iterable[tuple[bytes, int]], lexical: LexicalTable) -> ScoredPhrases:
    """Scores extracted phrase pairs of whole sources.

    Lexical weights are those of the alignment that the pair was most often extracted with. Where two alignments tie,
    the one that is greater as a list, over the words being explained, of ascending positions wins, as in Moses; so a
    tie can be broken differently for the two lexical weights. The alignment printed is that of lex(e|f).

    Args:
        keys: iterable of key and count, see `merged`.
        lexical: LexicalTable.

    Returns:
        ScoredPhrases.
    """
    positions = _Positions()
    phrases, alignments, weights, joint = [], [], [], []
    source_counts, source_distinct = [], []
    pairs = ((*key.split(SEPARATOR), count) for key, count in keys)
    for source, of_source in groupby(pairs, key=itemgetter(0)):
        source_words, before = source.split(b" "), len(joint)
        for target, of_pair in groupby(of_source, key=itemgetter(1)):
            target_words, found = target.split(b" "), list(of_pair)
            lengths = len(source_words), len(target_words)
            if len(found) == 1:
                _, _, links, count = found[0]
                by_source, by_target = positions.of(links, *lengths)
            else:
                parsed = [(pair[3], positions.of(pair[2], *lengths)) for pair in found]
                by_source, by_target = (max((count, by[side]) for count, by in parsed)[1] for side in (0, 1))
                links, count = _links(by_target), sum(pair[3] for pair in found)
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

    Each pair gets four scores in this order: p(f|e), lex(f|e), p(e|f), lex(e|f). The first and third
    are relative frequencies among the extracted pairs (Koehn, Och and Marcu 2003), smoothed if asked for; the others
    are lexical weights, see `score_merged`. `extract_phrase_table` does the same for text that memory does not hold.

    Args:
        sentence_pairs: list of `(source_words, target_words)`, not escaped.
        alignments: list, as long, of iterables of `(source_index, target_index)`.
        max_length: int. Most words in a phrase. Defaults to 7.
        smoothing: str. See `CountSmoothing`. Defaults to "none".

    Yields:
        str. Lines as `ScoredPhrases.lines` makes them, tokens escaped, in the order of their UTF-8 bytes.
    """
    sentences = [
        (*([escape(word).encode() for word in words] for words in pair), sorted(set(links)))
        for pair, links in zip(sentence_pairs, alignments, strict=True)
    ]
    words = {word for source, target, _ in sentences for side in (source, target) for word in side}
    vocabulary = {word: number for number, word in enumerate([NULL, *sorted(words - {NULL})])}
    lexical = LexicalTable(vocabulary, WordPairCounts.of_sentences(sentences, vocabulary))
    extracted = Counter(key for sentence in sentences for key in phrase_pair_keys(*sentence, max_length))
    scored = score_merged(sorted(extracted.items()), lexical)
    targets = scored.targets
    target_counts, target_distinct = Counter(), Counter(targets)
    for target, count in zip(targets, scored.joint.tolist(), strict=True):
        target_counts[target] += count
    columns = (np.array([counts[target] for target in targets]) for counts in (target_counts, target_distinct))
    for line in scored.lines(*columns, CountSmoothing(smoothing, scored.counts_of_counts().tolist())):
        yield line.decode()


class _Positions:
    """Parses alignments, those that come often once."""

    def __init__(self) -> None:
        self._parsed: dict[tuple[bytes, int, int], tuple[Positions, Positions]] = {}

    def of(self, links: bytes, source_length: int, target_length: int) -> tuple[Positions, Positions]:
        """Over the source words their targets, and over the target words their sources."""
        key = links, source_length, target_length
        found = self._parsed.get(key)
        if found is None:
            if len(self._parsed) >= _MOST_PARSED:
                self._parsed.clear()
            by_source, by_target = ([[] for _ in range(length)] for length in key[1:])
            for link in links.split():
                i, j = map(int, link.split(b"-"))
                by_source[i].append(j)
                by_target[j].append(i)
            found = self._parsed[key] = tuple(tuple(tuple(sorted(one)) for one in by) for by in (by_source, by_target))
        return found


def _links(by_target):
    return b" ".join(b"%d-%d" % (i, j) for j, sources in enumerate(by_target) for i in sources)


def _single_precision(values):
    """As Moses computes; but a weight too small for it stays what it is, where Moses would write 0."""
    single = values.astype(np.float32).astype(np.float64)
    return np.where(single == 0, values, single)
