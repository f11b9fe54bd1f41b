"""Word translation probabilities, and the lexical weights computed from them."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

# Unaligned words count as aligned to this word. As in Moses it is an ordinary entry of the vocabulary, so a word "NULL"
# of the text shares its counts.
NULL = b"NULL"
# A pair of words is one number: the target word in the low bits, the source word above them.
_BITS = 32
_TARGET = (1 << _BITS) - 1

Links = Iterable[tuple[int, int]]
Integers = npt.NDArray[np.int64]
Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class WordPairCounts:
    """Counts of how often words are aligned to one another: two arrays, which take a 16th of the memory of a dict.

    A link counts once for its two words. A word without a link counts once as aligned to NULL (Koehn, Och and Marcu
    2003, section 4.4).

    Attributes:
        pairs: int64 array. Pairs of word numbers, sorted.
        counts: int64 array of the same length. The count of each pair.
    """

    pairs: Integers
    counts: Integers

    @classmethod
    def of_sentences(
        cls, sentences: Iterable[tuple[Sequence[bytes], Sequence[bytes], Links]], vocabulary: Mapping[bytes, int]
    ) -> "WordPairCounts":
        """Counts the aligned words of sentence pairs, whose links are distinct, by the numbers of the vocabulary."""
        pairs: list[int] = []
        null = vocabulary[NULL]
        for source, target, links in sentences:
            sources, targets = [vocabulary[word] for word in source], [vocabulary[word] for word in target]
            free_sources, free_targets = set(range(len(source))), set(range(len(target)))
            for i, j in links:
                pairs.append(sources[i] << _BITS | targets[j])
                free_sources.discard(i)
                free_targets.discard(j)
            pairs.extend(sources[i] << _BITS | null for i in free_sources)
            pairs.extend(null << _BITS | targets[j] for j in free_targets)
        return cls(*np.unique(np.array(pairs, np.int64), return_counts=True))

    @classmethod
    def sum(cls, parts: Sequence["WordPairCounts"]) -> "WordPairCounts":
        """Adds up the counts of several parts."""
        pairs, indices = np.unique(np.concatenate([part.pairs for part in parts]), return_inverse=True)
        counts = np.zeros(len(pairs), np.int64)
        np.add.at(counts, indices, np.concatenate([part.counts for part in parts]))
        return cls(pairs, counts)


class LexicalTable:
    """Maximum likelihood word translation probabilities w(e|f) and w(f|e).

    Probabilities are rounded to seven decimals, as in the text file in which Moses stores them.

    Args:
        vocabulary: dict from each word of either side, and NULL, to its number.
        word_pairs: WordPairCounts.

    Example:

    >>> vocabulary = {word: number for number, word in enumerate([NULL, b"maison", b"bleue", b"blue", b"house"])}
    >>> sentences = [([b"maison", b"bleue"], [b"blue", b"house"], [(0, 1), (1, 0)])]
    >>> table = LexicalTable(vocabulary, WordPairCounts.of_sentences(sentences, vocabulary))
    >>> table.look_up(b"maison", b"house")
    (1.0, 1.0)
    """

    def __init__(self, vocabulary: Mapping[bytes, int], word_pairs: WordPairCounts) -> None:
        self._vocabulary, self._pairs, self._counts = vocabulary, word_pairs.pairs, word_pairs.counts
        size = len(vocabulary)
        self._sources = np.bincount(self._pairs >> _BITS, self._counts, minlength=size)
        self._targets = np.bincount(self._pairs & _TARGET, self._counts, minlength=size)
        # The probabilities that have been looked up, by source word, then by target word.
        self._known = _Computed(lambda source: _Computed(functools.partial(self.look_up, source)))

    def weights(
        self,
        source: Sequence[bytes],
        target: Sequence[bytes],
        by_source: Sequence[Sequence[int]],
        by_target: Sequence[Sequence[int]],
    ) -> tuple[float, float]:
        """Computes lex(f|e) and lex(e|f) of a phrase pair.

        Each is the product, over the words of one side, of the mean probability of the word given the words of the
        other side that it is aligned to.

        Args:
            source, target: lists of bytes, the words of the phrases.
            by_source: the target positions that each source word is aligned to, empty for an unaligned word. For
                lex(f|e).
            by_target: the source positions that each target word is aligned to. For lex(e|f).

        Returns:
            tuple: lex(f|e) and lex(e|f), floats.
        """
        known, weight_source, weight_target = self._known, 1.0, 1.0
        # Most words have a single link. Without a sum, their probability takes less time.
        for word, positions in zip(source, by_source, strict=True):
            if len(positions) == 1:
                weight_source *= known[word][target[positions[0]]][1]
            elif positions:
                by_aligned = known[word]
                weight_source *= sum([by_aligned[target[position]][1] for position in positions]) / len(positions)
            else:
                weight_source *= known[word][NULL][1]
        for word, positions in zip(target, by_target, strict=True):
            if len(positions) == 1:
                weight_target *= known[source[positions[0]]][word][0]
            elif positions:
                weight_target *= sum([known[source[position]][word][0] for position in positions]) / len(positions)
            else:
                weight_target *= known[NULL][word][0]
        return weight_source, weight_target

    def forget(self) -> None:
        """Empties the cache of probabilities to free its memory."""
        self._known.clear()

    def look_up(self, source: bytes, target: bytes) -> tuple[float, float]:
        """Computes w(target|source) and w(source|target); both are 1 for words never aligned, as in Moses."""
        source_number, target_number = self._vocabulary[source], self._vocabulary[target]
        pair = source_number << _BITS | target_number
        index = int(np.searchsorted(self._pairs, np.int64(pair)))
        if index == len(self._pairs) or self._pairs[index] != pair:
            return 1.0, 1.0
        count = int(self._counts[index])
        source_total, target_total = float(self._sources[source_number]), float(self._targets[target_number])
        return round(count / source_total, 7), round(count / target_total, 7)


class _Computed(dict[bytes, Value]):
    """A dict that computes the value of a missing word."""

    def __init__(self, compute: Callable[[bytes], Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, word: bytes) -> Value:
        value = self[word] = self._compute(word)
        return value
