"""A translation that the phrase-based decoder has found, and its line of an n-best list."""

from collections.abc import Sequence
from operator import mul

from keras_encdec.smt.decoder_weights import UNKNOWN_WORD_PENALTY, DecoderWeights
from keras_encdec.smt.phrase_search import Arc


class PhraseTranslation:
    """A translation: its text, its features and the weighted sum of these.

    Args:
        arcs: list of Arc, in the order of the target.
        weights: DecoderWeights.

    Attributes:
        text: str. The words, escaped, separated by spaces.
        features: dict of str to list of float: Moses's features by their names.
        total: float. The weighted sum of the features and of the penalty of unknown words, which is none of them.
        segmentation: str. For each phrase `source=target`, first and last word from 0: `0=0 1-2=1-3`.
        unknown_words: int. Words that are copied.
    """

    def __init__(self, arcs: Sequence[Arc], weights: DecoderWeights) -> None:
        options = [arc.option for arc in arcs]
        self.text = " ".join([option.text for option in options])
        self.unknown_words = sum(option.is_unknown for option in options)
        segments, jumped, source_end, target_end = [], 0, 0, 0
        for arc in arcs:
            if not arc.option.words:  # all that there is of an empty sentence
                continue
            jumped += abs(arc.start - source_end)
            target_start, target_end = target_end, target_end + len(arc.option.words)
            source_end = arc.end
            segments.append(f"{_span(arc.start, arc.end)}={_span(target_start, target_end)}")
        self.segmentation = " ".join(segments)
        translation = [sum(scores) for scores in zip(*[option.scores for option in options], strict=True)]
        language_model = sum([arc.language_model for arc in arcs])
        self.features = {
            "Distortion0": [-jumped], "LM0": [language_model], "WordPenalty0": [-target_end],
            "PhrasePenalty0": [len(segments)], "TranslationModel0": translation,
        }  # fmt: skip
        self.total = (
            weights.distortion * -jumped + weights.language_model * language_model + weights.word_penalty * -target_end
            + weights.phrase_penalty * len(segments) + sum(map(mul, weights.translation, translation))
            + weights.unknown * UNKNOWN_WORD_PENALTY * self.unknown_words
        )  # fmt: skip

    def line(self, number: int) -> str:
        """Its line of an n-best list.

        Args:
            number: int. The sentence's, from 0.
        """
        features = " ".join([f"{name}= {' '.join(map(_number, values))}" for name, values in self.features.items()])
        return f"{number} ||| {self.text}  ||| {features} ||| {_number(self.total)} ||| {self.segmentation}".rstrip()


def _span(start: int, end: int) -> str:
    return f"{start}-{end - 1}" if end - start > 1 else f"{start}"


def _number(value: float) -> str:
    return f"{value + 0.0:.6g}"  # no -0
