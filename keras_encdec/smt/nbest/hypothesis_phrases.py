"""Finds the phrases that a hypothesis of an n-best list consists of: in its segmentation, or from its features."""

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import add

from keras_encdec.errors import quoted
from keras_encdec.formats import PhraseSpan, parse_features, parse_segmentation
from keras_encdec.formats.feature_weights import DISTORTION, PHRASE_PENALTY
from keras_encdec.formats.record_reader import MalformedLine
from keras_encdec.smt.nbest.phrase_scores import PhraseScores, PositionedPhrase
from keras_encdec.smt.nbest.segmentation_search import DECIMALS, DerivationFeatures, find_segmentation, tolerance

# If several lines of the table fit a phrase pair, at most this number of combinations of such lines is kept. Nearly
# all hypotheses have fewer.
_MOST_CHOICES = 10_000


class HypothesisPhrases:
    """Finds the phrases of each hypothesis of a sentence.

    Args:
        scores: PhraseScores of the table.
        source: list of str. The words of the sentence.
        hypotheses: list of lists of str. The words of all hypotheses.
        moses_feature: str. Name of the table's feature in the list.

    Attributes:
        recovered: int. Number of hypotheses so far whose phrases were recovered from their features.
    """

    def __init__(
        self, scores: PhraseScores, source: Sequence[str], hypotheses: Sequence[Sequence[str]], moses_feature: str
    ) -> None:
        self._scores, self._source, self._hypotheses, self._moses_feature = scores, source, hypotheses, moses_feature
        self.recovered = 0

    def phrases(self, line: bytes, words: Sequence[str]) -> list[PositionedPhrase]:
        """Finds the phrases of a hypothesis.

        Args:
            line: bytes. The line of the hypothesis in the list.
            words: list of str. The words of the hypothesis.

        Returns:
            list of PositionedPhrase, in the order of the hypothesis.

        Raises:
            MalformedLine: a ValueError with `found` and `expected`, if the phrases are not found.
        """
        spans = parse_segmentation(line, len(self._source), len(words))
        if spans is not None:
            return self._fitting([self._lines_of_span(span, words) for span in spans], line)
        phrases = find_segmentation(
            self._options, len(self._source), words, self._scores.longest, self._features(line.split(b"|||")[2])
        )
        if phrases is None:
            raise MalformedLine(
                "found no phrases in the table that form the hypothesis and whose scores add up to "
                f"{self._moses_feature}",
                "expected the sentences and the table that the list was made with",
            )
        self.recovered += 1
        return phrases

    @cached_property
    def _options(self) -> Mapping[str, Sequence[PositionedPhrase]]:
        """The phrase options of the sentence, by target phrase."""
        longest = self._scores.longest
        targets = {
            " ".join(words[start:end])
            for words in self._hypotheses
            for start in range(len(words))
            for end in range(start + 1, min(len(words), start + longest) + 1)
        }
        return self._scores.options(self._source, targets | {""})

    def _lines_of_span(self, span: PhraseSpan, words: Sequence[str]) -> list[PositionedPhrase]:
        """Returns the lines of the table with the pair of a span."""
        target = " ".join(words[span.target_start : span.target_end])
        options = self._scores.options_at(self._source, span.source_start, span.source_end, target)
        if not options:
            source = " ".join(self._source[span.source_start : span.source_end])
            raise MalformedLine(
                f"found the phrases {quoted(source)} and {quoted(target)} in the segmentation",
                "expected a pair of the table",
            )
        return options

    def _fitting(self, options: Sequence[list[PositionedPhrase]], line: bytes) -> list[PositionedPhrase]:
        """Chooses one of the lines of each pair: without factors, several lines may have the same pair.

        The scores of the chosen lines add up to the feature of the table in the list. If the list lacks it, or no
        choice fits, the first line of each pair is chosen.
        """
        first = [same_pair[0] for same_pair in options]
        ambiguous = [index for index, same_pair in enumerate(options) if len(same_pair) > 1]
        sums = parse_features(line.split(b"|||")[2]).get(self._moses_feature, []) if ambiguous else []
        if not 0 < len(sums) <= self._scores.num_scores:
            return first
        fixed = [option.log_scores for index, option in enumerate(first) if index not in ambiguous]
        so_far = tuple(sum(scores[i] for scores in fixed) for i in range(len(sums)))
        chosen = _choice([options[index] for index in ambiguous], so_far, sums)
        if chosen is not None:
            for index, option in zip(ambiguous, chosen, strict=True):
                first[index] = option
        return first

    def _features(self, field: bytes) -> DerivationFeatures:
        features = parse_features(field)
        scores = features.get(self._moses_feature)
        if scores is None:
            raise MalformedLine(
                f"found neither a segmentation nor the feature {self._moses_feature}",
                "expected one of them (--moses_feature names the feature of the table)",
            )
        if len(scores) > self._scores.num_scores:
            raise MalformedLine(
                f"found {len(scores)} values of {self._moses_feature}",
                f"expected at most {self._scores.num_scores}, the number of scores in the table",
            )
        (phrases,), (distortion,) = (features.get(name, [None])[:1] for name in (PHRASE_PENALTY, DISTORTION))
        return DerivationFeatures(scores, phrases, distortion)


def _choice(
    options: Sequence[Sequence[PositionedPhrase]], first: tuple[float, ...], sums: Sequence[float]
) -> tuple[PositionedPhrase, ...] | None:
    """Chooses one of the options of each pair whose log-scores, added to the first sums, give the sums of the list."""
    # For each sum of the scores so far, rounded: the sum, and the options that were chosen for it.
    reached: dict[tuple[float, ...], tuple[tuple[float, ...], tuple[PositionedPhrase, ...]]] = {(): (first, ())}
    for same_pair in options:
        extended: dict[tuple[float, ...], tuple[tuple[float, ...], tuple[PositionedPhrase, ...]]] = {}
        for so_far, chosen in reached.values():
            for option in same_pair:
                total = tuple(map(add, so_far, option.log_scores))
                extended.setdefault(tuple(round(value, DECIMALS) for value in total), (total, (*chosen, option)))
        reached = dict(itertools.islice(extended.items(), _MOST_CHOICES))
    for total, chosen in reached.values():
        if all(abs(a - b) <= tolerance(b) for a, b in zip(total, sums, strict=True)):
            return chosen
    return None
