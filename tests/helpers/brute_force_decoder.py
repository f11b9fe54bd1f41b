"""Phrase-based translation by trying everything: for sentences of a few words."""

import math
from typing import NamedTuple


class Derivation(NamedTuple):
    """Phrases in the order of the target.

    Attributes:
        phrases: tuple of `(start, end, target words, ln of its scores)`.
        unknown: int. Number of copied words.
    """

    phrases: tuple
    unknown: int

    @property
    def text(self):
        return " ".join(word for _, _, target, _ in self.phrases for word in target)

    def features(self, model):
        """Moses's features, a list of float."""
        words = self.text.split()
        ends = [0, *(end for _, end, _, _ in self.phrases)]
        jumps = sum(abs(start - end) for (start, *_), end in zip(self.phrases, ends, strict=False))
        scores = [sum(column) for column in zip(*[scores for *_, scores in self.phrases], strict=True)]
        log_prob = model.score(words) * math.log(10)
        return [-jumps, log_prob, -len(words), len(self.phrases), *scores]


def derivations(words, table, columns, distortion_limit):
    """Every derivation of a sentence.

    Args:
        words: list of str.
        table: dict of source, str, to list of `(target, scores)`.
        columns: int. Number of scores.
        distortion_limit: int, -1 for none.

    Yields:
        Derivation.
    """
    limit = len(words) if distortion_limit < 0 else distortion_limit
    options = []
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            for target, scores in table.get(" ".join(words[start:end]), ()):
                options.append((start, end, tuple(target.split()), tuple(map(floored, scores)), 0))
        if words[start] not in table:
            options.append((start, start + 1, (words[start],), (0.0,) * columns, 1))

    def extended(phrases, covered, last, unknown):
        if len(covered) == len(words):
            yield Derivation(phrases, unknown)
            return
        gap = min(set(range(len(words))) - covered)
        for start, end, target, scores, copied in options:
            span = set(range(start, end))
            can_come_back = start == gap or end - gap <= limit
            if not span & covered and abs(start - last) <= limit and can_come_back:
                phrase = (start, end, target, scores)
                yield from extended((*phrases, phrase), covered | span, end, unknown + copied)

    yield from extended((), set(), 0, 0)


def floored(score):
    return max(math.log(score), -100.0) if score else -100.0
