"""The best translations of a sentence, from the hypotheses that a search has recombined."""

import heapq
from collections.abc import Iterator

from keras_encdec.smt.phrase_search import Arc, Hypothesis

# What as many different translations are looked for among, as in Moses (n-best-factor).
_DERIVATIONS_OF_EACH = 20


def distinct_derivations(goal: Hypothesis, number: int) -> Iterator[list[Arc]]:
    """The derivations with the highest scores whose texts differ, the best first.

    Args:
        goal: Hypothesis of a whole sentence.
        number: int. How many are wanted; there may be fewer, as no more than 20 times as many are looked at.

    Yields:
        list of Arc, in the order of the target.
    """
    known = set()
    for rank in range(number * _DERIVATIONS_OF_EACH):
        if _ranked(goal, rank) is None:
            return
        arcs = _derivation(goal, rank)
        text = " ".join([arc.option.text for arc in arcs])
        if text not in known:
            known.add(text)
            yield arcs
            if len(known) == number:
                return


def _derivation(hypothesis: Hypothesis, rank: int) -> list[Arc]:
    arcs = []
    while hypothesis.arcs:
        _, number, rank = hypothesis.ranked[rank]
        arcs.append(hypothesis.arcs[number])
        hypothesis = arcs[-1].previous
    return arcs[::-1]


def _ranked(hypothesis: Hypothesis, rank: int) -> tuple[float, int, int] | None:
    """The derivation of that rank, lazily: algorithm 3 of Huang and Chiang, 2005, "Better k-best Parsing" (W05-1506).

    Args:
        hypothesis: Hypothesis. All lower ranks have been asked for, or none of them.
        rank: int, from 0.

    Returns:
        A tuple of the score, the number of the last arc and the rank of what it continues; `None` when there are fewer.
    """
    if not hypothesis.arcs:
        return None if rank else (0.0, 0, 0)
    if hypothesis.candidates is None:
        hypothesis.candidates = [
            (-arc.previous.score - arc.score, number, 0) for number, arc in enumerate(hypothesis.arcs)
        ]
        heapq.heapify(hypothesis.candidates)
    while len(hypothesis.ranked) <= rank:
        if hypothesis.ranked:
            _, number, below = hypothesis.ranked[-1]
            arc = hypothesis.arcs[number]
            if (following := _ranked(arc.previous, below + 1)) is not None:
                heapq.heappush(hypothesis.candidates, (-following[0] - arc.score, number, below + 1))
        if not hypothesis.candidates:
            return None
        negative, number, below = heapq.heappop(hypothesis.candidates)
        _ranked(hypothesis.arcs[number].previous, below)  # so that `_derivation` finds it
        hypothesis.ranked.append((-negative, number, below))
    return hypothesis.ranked[rank]
