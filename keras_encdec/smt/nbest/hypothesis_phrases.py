"""Finds the phrases that a hypothesis of an n-best list consists of: in its segmentation, or from its features."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from keras_encdec.errors import quoted
from keras_encdec.formats import PhraseSpan, parse_features, parse_segmentation
from keras_encdec.formats.record_reader import MalformedLine
from keras_encdec.smt.nbest.phrase_scores import PhraseOption, PhraseScores
from keras_encdec.smt.nbest.segmentation_search import DerivationFeatures, find_segmentation

DISTORTION, PHRASE_PENALTY = "Distortion0", "PhrasePenalty0"


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

    def phrases(self, line: bytes, words: Sequence[str]) -> list[PhraseOption]:
        """Finds the phrases of a hypothesis.

        Args:
            line: bytes. The line of the hypothesis in the list.
            words: list of str. The words of the hypothesis.

        Returns:
            list of PhraseOption, in the order of the hypothesis.

        Raises:
            MalformedLine: a ValueError with `found` and `expected`, when the phrases are not found.
        """
        spans = parse_segmentation(line, len(self._source), len(words))
        if spans is not None:
            return [self._option(span, words) for span in spans]
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
    def _options(self) -> Mapping[str, Sequence[PhraseOption]]:
        """The phrase options of the sentence, by target phrase."""
        longest = self._scores.longest
        targets = {
            " ".join(words[start:end])
            for words in self._hypotheses
            for start in range(len(words))
            for end in range(start + 1, min(len(words), start + longest) + 1)
        }
        return self._scores.options(self._source, targets | {""})

    def _option(self, span: PhraseSpan, words: Sequence[str]) -> PhraseOption:
        target = " ".join(words[span.target_start : span.target_end])
        options = self._scores.options_at(self._source, span.source_start, span.source_end, target)
        if not options:
            source = " ".join(self._source[span.source_start : span.source_end])
            raise MalformedLine(
                f"found the phrases {quoted(source)} and {quoted(target)} in the segmentation",
                "expected a pair of the table",
            )
        return options[0]

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
