"""Extraction of consistent phrase pairs from one word-aligned sentence pair."""


from collections.abc import Iterator
from typing import Any


def extract_phrases(source_length: int, target_length: int, alignment: Any, max_length: int = 7) -> Iterator[Any]:
    """Finds every phrase pair that is consistent with a word alignment.

    A source span and a target span are consistent when no word inside either is aligned to a word
    outside the other, and at least one alignment point lies inside both (Koehn, Och and Marcu,
    "Statistical Phrase-Based Translation", NAACL 2003). Unaligned words at the edges of a span belong
    to it or not, so one core pair gives several. The order is that of Moses's `extract`: by target
    start, target end; then source start falling, source end rising.

    Args:
        source_length: int. Number of source words.
        target_length: int. Number of target words.
        alignment: iterable of `(source_index, target_index)`, from 0.
        max_length: int. Most words in a phrase, on either side. Defaults to 7, Moses's default.

    Returns:
        list of `(source_start, source_end, target_start, target_end)`, ends exclusive.

    Raises:
        ValueError: when an alignment point lies outside the sentences.

    Example:

    >>> extract_phrases(2, 2, [(0, 1), (1, 0)])
    [(1, 2, 0, 1), (0, 2, 0, 2), (0, 1, 1, 2)]
    """
    # Per word, the first and the last word it is aligned to on the other side; None when unaligned.
    source_reach, target_reach = [None] * source_length, [None] * target_length
    for source, target in alignment:
        if not (0 <= source < source_length and 0 <= target < target_length):
            raise ValueError(
                f"alignment point {source}-{target} is outside a sentence pair of "
                f"{source_length} and {target_length} words"
            )
        source_reach[source] = _widen(source_reach[source], target)
        target_reach[target] = _widen(target_reach[target], source)

    phrases = []
    for target_start in range(target_length):
        first, last = source_length, -1
        for target_end in range(target_start + 1, min(target_start + max_length, target_length) + 1):
            reach = target_reach[target_end - 1]
            if reach:
                first, last = min(first, reach[0]), max(last, reach[1])
            if last < 0:
                continue
            if last - first >= max_length:
                break  # a longer target span reaches at least as far
            if all(
                word is None or (target_start <= word[0] and word[1] < target_end)
                for word in source_reach[first : last + 1]
            ):
                phrases.extend(
                    (start, end, target_start, target_end)
                    for start, end in _source_spans(source_reach, first, last, max_length)
                )
    return phrases


def _widen(reach, index):
    return (index, index) if reach is None else (min(reach[0], index), max(reach[1], index))


def _source_spans(source_reach, first, last, max_length):
    """Yields the span `first` to `last` and its extensions over unaligned words, ends exclusive."""
    start = first
    while start >= 0 and last - start < max_length and (start == first or source_reach[start] is None):
        end = last + 1
        while (
            end <= len(source_reach)
            and end - start <= max_length
            and (end == last + 1 or source_reach[end - 1] is None)
        ):
            yield start, end
            end += 1
        start -= 1
