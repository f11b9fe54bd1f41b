"""Word translation probabilities and the lexical weights computed with them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

# The word that explains what is aligned to nothing. Moses keeps it among the words, so a word of the
# text that is spelled so shares its counts; so it does here.
NULL = "NULL"


class LexicalTable:
    """Maximum likelihood word translation probabilities w(e|f) and w(f|e), from word alignments.

    An alignment point counts once for its two words; a word without a point counts once as aligned to
    NULL (Koehn, Och and Marcu 2003, section 4.4). Probabilities are rounded to seven decimals: Moses
    passes them through a text file with that many, and its scores show it.

    Args:
        sentence_pairs: iterable of `(source_words, target_words)`.
        alignments: iterable, as long, of iterables of distinct `(source_index, target_index)`.

    Example:

    >>> table = LexicalTable([(["maison", "bleue"], ["blue", "house"])], [[(0, 1), (1, 0)]])
    >>> table.target_probability("maison", "house")
    1.0
    """

    def __init__(self, sentence_pairs: Iterable[Any], alignments: Iterable[Any]) -> None:
        self._joint, self._source, self._target = Counter(), Counter(), Counter()
        for (source, target), points in zip(sentence_pairs, alignments, strict=True):
            points = set(points)
            aligned_sources = {s for s, _ in points}
            aligned_targets = {t for _, t in points}
            pairs = [(source[s], target[t]) for s, t in points]
            pairs += [(word, NULL) for s, word in enumerate(source) if s not in aligned_sources]
            pairs += [(NULL, word) for t, word in enumerate(target) if t not in aligned_targets]
            self._joint.update(pairs)
            self._source.update(pair[0] for pair in pairs)
            self._target.update(pair[1] for pair in pairs)

    def target_probability(self, source: str, target: str) -> float:
        """w(target|source); 1 for words never aligned to each other, as in Moses."""
        return self._ratio((source, target), self._source[source])

    def source_probability(self, source: str, target: str) -> float:
        """w(source|target); 1 for words never aligned to each other, as in Moses."""
        return self._ratio((source, target), self._target[target])

    def weight_target(self, source: Sequence[str], target: Sequence[str], alignment: Any) -> float:
        """lex(e|f): the product over target words of their mean probability given what they align to.

        Args:
            source, target: lists of str, the words of the phrases.
            alignment: for each target word, its source positions; empty when it has none.

        Returns:
            float.
        """
        weight = 1.0
        for word, positions in zip(target, alignment, strict=True):
            given = [source[position] for position in positions] or [NULL]
            weight *= sum(self.target_probability(other, word) for other in given) / len(given)
        return weight

    def weight_source(self, source: Sequence[str], target: Sequence[str], alignment: Any) -> float:
        """lex(f|e): as `weight_target`, with the sides exchanged.

        Args:
            source, target: lists of str, the words of the phrases.
            alignment: for each source word, its target positions; empty when it has none.

        Returns:
            float.
        """
        weight = 1.0
        for word, positions in zip(source, alignment, strict=True):
            given = [target[position] for position in positions] or [NULL]
            weight *= sum(self.source_probability(word, other) for other in given) / len(given)
        return weight

    def _ratio(self, pair, total):
        count = self._joint.get(pair)
        return 1.0 if count is None else round(count / total, 7)
