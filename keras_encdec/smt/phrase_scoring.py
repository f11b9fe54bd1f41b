"""Phrase tables from word-aligned sentence pairs, as Moses scores them.

In Moses's letters, which the phrase table formats keep, f is the source and e the target.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from keras_encdec.formats import escape
from keras_encdec.smt.lexical_table import LexicalTable
from keras_encdec.smt.phrase_extraction import extract_phrases


def score_phrases(sentence_pairs: Sequence[Any], alignments: Sequence[Any], max_length: int = 7) -> Any:
    """Extracts and scores every phrase pair, as Moses's `extract`, `score` and `consolidate` do.

    Each pair gets four scores in this order: p(f|e), lex(f|e), p(e|f), lex(e|f). The first and third
    are relative frequencies among the extracted pairs (Koehn, Och and Marcu 2003); the others are
    lexical weights of the alignment the pair was most often extracted with. Where two alignments tie,
    the one that is greater as a list, over the words being explained, of ascending positions wins, as
    in Moses; so a tie can be broken differently for the two lexical weights. The alignment printed is
    that of lex(e|f).

    Args:
        sentence_pairs: list of `(source_words, target_words)`, not escaped.
        alignments: list, as long, of iterables of `(source_index, target_index)`.
        max_length: int. Most words in a phrase. Defaults to 7.

    Yields:
        str. Lines without line ends, tokens escaped, in the order of their UTF-8 bytes:
        `source ||| target ||| scores ||| alignment ||| count(e) count(f) count(f, e) ||| |||`.
    """
    sentence_pairs = [tuple([escape(word) for word in words] for words in pair) for pair in sentence_pairs]
    lexical = LexicalTable(sentence_pairs, alignments)
    # One text key for each pair and alignment: a tenth of the memory of nested dictionaries, and
    # sorted it is the order of the finished table (code points sort as their UTF-8 bytes do).
    extracted = Counter()
    for (source, target), points in zip(sentence_pairs, alignments, strict=True):
        extracted.update(_extracted_pairs(source, target, points, max_length))
    source_counts, target_counts = Counter(), Counter()
    for key, count in extracted.items():
        source, target, _ = key.split(" ||| ")
        source_counts[source] += count
        target_counts[target] += count

    for (source, target), group in groupby(
        ((key.split(" ||| "), extracted[key]) for key in sorted(extracted)), key=lambda item: item[0][:2]
    ):
        counts = {_parse_points(key[2]): count for key, count in group}
        count = sum(counts.values())
        by_target = _best_alignment(counts, len(target.split()), explained=1)
        by_source = _best_alignment(counts, len(source.split()), explained=0)
        scores = (
            np.float32(count) / np.float32(target_counts[target]),
            lexical.weight_source(source.split(), target.split(), by_source),
            np.float32(count) / np.float32(source_counts[source]),
            lexical.weight_target(source.split(), target.split(), by_target),
        )
        yield " ||| ".join(
            (
                source,
                target,
                " ".join(map(_number, scores)),
                " ".join(f"{s}-{t}" for t, sources in enumerate(by_target) for s in sources),
                " ".join(map(_number, (target_counts[target], source_counts[source], count))),
                "|||",
            )
        )


def _extracted_pairs(source, target, points, max_length):
    """Yields `source phrase ||| target phrase ||| alignment` for each extracted span pair."""
    points = sorted(set(points))
    for s, s_end, t, t_end in extract_phrases(len(source), len(target), points, max_length):
        inside = " ".join(f"{i - s}-{j - t}" for i, j in points if s <= i < s_end and t <= j < t_end)
        yield f"{' '.join(source[s:s_end])} ||| {' '.join(target[t:t_end])} ||| {inside}"


def _parse_points(text):
    return tuple(tuple(map(int, point.split("-"))) for point in text.split())


def _best_alignment(counts, length, explained):
    """The most frequent alignment, as a tuple over one side's words of positions on the other.

    Args:
        counts: dict from tuples of `(source_index, target_index)` to int.
        length: int. Words on the side explained.
        explained: int. Which side that is: 0 the source, 1 the target.
    """

    def positions(points):
        return tuple(
            tuple(sorted(point[1 - explained] for point in points if point[explained] == index))
            for index in range(length)
        )

    if len(counts) == 1:
        return positions(next(iter(counts)))
    return max((count, positions(points)) for points, count in counts.items())[1]


def _number(value):
    """Formats as C++ streams do by default, from the single precision that Moses computes in."""
    # A weight too small for single precision stays what it is: Moses would write 0, which its
    # decoder reads as a log-probability of -100.
    return f"{float(np.float32(value)) or float(value):.6g}"
