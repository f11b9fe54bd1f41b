"""Extracts consistent phrase pairs from a word-aligned sentence pair."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

MAX_PHRASE_LENGTH = 7

Spans = list[tuple[int, int, int, int]]


def extract_phrases(
    source_length: int, target_length: int, alignment: Iterable[tuple[int, int]], max_length: int = MAX_PHRASE_LENGTH
) -> Spans:
    """Finds every phrase pair that is consistent with a word alignment.

    A source span and a target span are consistent when no word inside one is aligned to a word outside the other, and
    at least one link lies inside both (Koehn, Och and Marcu, "Statistical Phrase-Based Translation", NAACL 2003). A
    source span may be extended over adjacent unaligned words, and each extension is a phrase pair, too. The order is
    that of Moses's `extract`: ascending target start, then ascending target end, descending source start and ascending
    source end.

    Args:
        source_length: int. Number of source words.
        target_length: int. Number of target words.
        alignment: iterable of `(source_index, target_index)`, from 0.
        max_length: int. Maximum number of words in a phrase, on either side. Defaults to 7, Moses's default.

    Returns:
        list of `(source_start, source_end, target_start, target_end)`, ends exclusive.

    Raises:
        ValueError: if a link lies outside the sentences.

    Example:

    >>> extract_phrases(2, 2, [(0, 1), (1, 0)])
    [(1, 2, 0, 1), (0, 2, 0, 2), (0, 1, 1, 2)]
    """
    # The first and the last word that each word is aligned to. The values for unaligned words never limit a span.
    source_first, source_last = [target_length] * source_length, [-1] * source_length
    target_first, target_last = [source_length] * target_length, [-1] * target_length
    for source, target in alignment:
        if not (0 <= source < source_length and 0 <= target < target_length):
            expected = f"expected positions in sentences of {source_length} and {target_length} words"
            raise ValueError(f"found the link {source}-{target}, {expected}")
        source_first[source] = min(source_first[source], target)
        source_last[source] = max(source_last[source], target)
        target_first[target] = min(target_first[target], source)
        target_last[target] = max(target_last[target], source)

    phrases: Spans = []
    for target_start in range(target_length):
        first, last = source_length, -1
        for target_end in range(target_start + 1, min(target_start + max_length, target_length) + 1):
            word = target_end - 1
            if target_first[word] < first:
                first = target_first[word]
            if target_last[word] > last:
                last = target_last[word]
            if last < 0:
                continue
            if last - first >= max_length:
                break  # a longer target span reaches at least as far
            if min(source_first[first : last + 1]) < target_start:
                break  # for a longer target span, too, this word is aligned to a word before the span
            if max(source_last[first : last + 1]) >= target_end:
                continue
            phrases.append((first, last + 1, target_start, target_end))
            if (first and source_last[first - 1] < 0) or (last + 1 < source_length and source_last[last + 1] < 0):
                spans = _extensions(source_last, first, last, max_length)
                phrases.extend((start, end, target_start, target_end) for start, end in spans)
    return phrases


def phrase_pair_keys(
    source: Sequence[bytes],
    target: Sequence[bytes],
    links: Iterable[tuple[int, int]],
    max_length: int = MAX_PHRASE_LENGTH,
) -> Iterator[bytes]:
    """Yields `source phrase ||| target phrase ||| alignment` for each phrase pair of a pair of escaped sentences.

    Links are in the order of the target words, as Moses prints them. See `extract_phrases`.
    """
    points = sorted({(j, i) for i, j in links})
    # The index of the first point of each target word.
    starts = [bisect_left(points, (j, 0)) for j in range(len(target) + 1)]
    texts: dict[tuple[int, int], bytes] = {}
    spans = extract_phrases(len(source), len(target), [(i, j) for j, i in points], max_length)
    for s, s_end, t, t_end in spans:
        text = texts.get((s, s_end))
        if text is None:
            text = texts[s, s_end] = b" ".join(source[s:s_end])
        inside = [b"%d-%d" % (i - s, j - t) for j, i in points[starts[t] : starts[t_end]]]
        yield b"%b ||| %b ||| %b" % (text, b" ".join(target[t:t_end]), b" ".join(inside))


def _extensions(source_last: Sequence[int], first: int, last: int, max_length: int) -> Iterator[tuple[int, int]]:
    """Yields the spans that extend the span `first` to `last` over unaligned words, ends exclusive."""
    start = first
    while start >= 0 and last - start < max_length and (start == first or source_last[start] < 0):
        end = last + 1
        while end <= len(source_last) and end - start <= max_length and (end == last + 1 or source_last[end - 1] < 0):
            if start < first or end > last + 1:
                yield start, end
            end += 1
        start -= 1
