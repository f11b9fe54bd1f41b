"""A translation of the phrase-based decoder, and its line in an n-best list."""

import heapq
from collections.abc import Iterator, Sequence
from operator import mul

from keras_encdec.formats.feature_weights import (
    DISTORTION,
    LANGUAGE_MODEL,
    PHRASE_PENALTY,
    TRANSLATION_MODEL,
    WORD_PENALTY,
)
from keras_encdec.smt.decoder.decoding_options import UNKNOWN_WORD_VALUE, DecoderWeights
from keras_encdec.smt.decoder.phrase_search import Arc, RankedDerivation, SearchNode


class PhraseTranslation:
    """A translation with its features and their weighted sum.

    Args:
        arcs: list of Arc, in the order of the target.
        weights: DecoderWeights.

    Attributes:
        text: str. The words, escaped, separated by spaces.
        features: dict from the name of a feature of Moses to list of float.
        total: float. The weighted sum of the features and of the penalty of unknown words, which is not in `features`.
        segmentation: str. `source=target` for each phrase, with the first and the last word from 0: `0=0 1-2=1-3`.
            A deleted phrase has the number of the word that follows it.
        unknown_words: int. Number of copied words.
    """

    def __init__(self, arcs: Sequence[Arc], weights: DecoderWeights) -> None:
        options = [arc.option for arc in arcs]
        self.text = _text(arcs)
        self.unknown_words = sum(option.is_unknown for option in options)
        segments, jumped, source_end, target_end = [], 0, 0, 0
        for arc in arcs:
            if arc.start == arc.end:  # the only arc of an empty sentence
                continue
            jumped += abs(arc.start - source_end)
            target_start, target_end = target_end, target_end + len(arc.option.words)
            source_end = arc.end
            segments.append(f"{_span(arc.start, arc.end)}={_span(target_start, target_end)}")
        self.segmentation = " ".join(segments)
        translation = [sum(scores) for scores in zip(*[option.scores for option in options], strict=True)]
        language_model = sum([arc.language_model for arc in arcs])
        self.features: dict[str, list[float]] = {
            DISTORTION: [-jumped],
            LANGUAGE_MODEL: [language_model],
            WORD_PENALTY: [-target_end],
            PHRASE_PENALTY: [len(segments)],
            TRANSLATION_MODEL: translation,
        }
        self.total = (
            weights.distortion * -jumped
            + weights.language_model * language_model
            + weights.word_penalty * -target_end
            + weights.phrase_penalty * len(segments)
            + sum(map(mul, weights.translation, translation))
            + weights.unknown * UNKNOWN_WORD_VALUE * self.unknown_words
        )

    def line(self, number: int) -> str:
        """Returns the line of the translation in an n-best list; sentences are numbered from 0."""
        features = " ".join([f"{name}= {' '.join(map(_number, values))}" for name, values in self.features.items()])
        return f"{number} ||| {self.text}  ||| {features} ||| {_number(self.total)} ||| {self.segmentation}".rstrip()


def _text(arcs: Sequence[Arc]) -> str:
    return " ".join([arc.option.text for arc in arcs if arc.option.text])


def _span(start: int, end: int) -> str:
    return f"{start}-{end - 1}" if end - start > 1 else f"{start}"


def _number(value: float) -> str:
    return f"{value + 0.0:.6g}"  # no -0


def distinct_derivations(goal: SearchNode, number: int) -> Iterator[list[Arc]]:
    """Yields derivations whose texts differ, in the order of the target, those with the highest scores first.

    There are fewer than `number` if the search has found fewer texts.
    """
    for rank in range(number):
        if _ranked(goal, rank) is None:
            return
        yield _derivation(goal, rank)


def _derivation(node: SearchNode, rank: int) -> list[Arc]:
    arcs: list[Arc] = []
    while node.arcs:
        _, number, rank, _ = node.ranked[rank]
        arcs.append(node.arcs[number])
        node = arcs[-1].previous
    return arcs[::-1]


def _ranked(node: SearchNode, rank: int) -> RankedDerivation | None:
    """Returns the derivation of a rank, from 0, and computes it and those of lower ranks unless they are known.

    This is algorithm 3 of Huang and Chiang, 2005 (W05-1506). Of derivations with the same text, only the best gets a
    rank: whatever follows, the others have lower scores (Huang, Knight and Joshi, 2006).

    Returns:
        the derivation; `None` for a rank beyond the last.
    """
    if not node.arcs:
        return None if rank else (0.0, 0, 0, "")
    if node.candidates is None:
        node.candidates = [(-arc.previous.score - arc.score, number, 0) for number, arc in enumerate(node.arcs)]
        heapq.heapify(node.candidates)
    while len(node.ranked) <= rank:
        if not node.candidates:
            return None
        negative, number, below = heapq.heappop(node.candidates)
        arc = node.arcs[number]
        continued = _ranked(arc.previous, below)
        assert continued is not None, "only derivations that exist are candidates"
        text = " ".join(filter(None, (continued[3], arc.option.text)))
        if text not in node.texts:
            node.texts.add(text)
            node.ranked.append((-negative, number, below, text))
        if (following := _ranked(arc.previous, below + 1)) is not None:
            heapq.heappush(node.candidates, (-following[0] - arc.score, number, below + 1))
    return node.ranked[rank]
