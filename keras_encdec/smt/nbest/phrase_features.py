"""Scores of a phrase table as features of an n-best list: the sums over the phrases of each hypothesis."""

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError, quoted
from keras_encdec.formats import (
    Column,
    ColumnKind,
    FilePath,
    InputLines,
    NBestFormat,
    NBestPairReader,
    PhraseSpan,
    append_features,
    model_words,
    open_output,
    parse_features,
    parse_segmentation,
)
from keras_encdec.formats.nbest import NBestPairRecord
from keras_encdec.formats.nbest_line import check_feature_name, features_of
from keras_encdec.formats.pair_format import log_prob_text
from keras_encdec.formats.phrase_table import LOWEST_LOG_PROBABILITY
from keras_encdec.formats.record_reader import MalformedLine
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.progress import FileSummary, Progress
from keras_encdec.smt.nbest.nbest_options import PhraseFeatureOptions
from keras_encdec.smt.nbest.phrase_scores import PhraseOption, PhraseScores, read_phrase_scores
from keras_encdec.smt.nbest.segmentation_search import DerivationFeatures, SearchGivenUp, find_segmentation

DISTORTION, PHRASE_PENALTY = "Distortion0", "PhrasePenalty0"


class Derivations:
    """The phrases of each hypothesis of a sentence.

    Args:
        scores: PhraseScores of the table.
        source: list of str. The words of the sentence.
        hypotheses: list of lists of str. The words of all hypotheses.
        moses_feature: str. Name of the table's feature in the list.

    Attributes:
        recovered: int. Number of hypotheses so far whose phrases were recovered, as the list has no segmentation.
    """

    def __init__(
        self, scores: PhraseScores, source: Sequence[str], hypotheses: Sequence[Sequence[str]], moses_feature: str
    ) -> None:
        self._scores, self._source, self._hypotheses, self._moses_feature = scores, source, hypotheses, moses_feature
        self.recovered = 0

    def phrases(self, line: bytes, words: Sequence[str]) -> list[PhraseOption]:
        """The phrases of a hypothesis.

        Args:
            line: bytes. The hypothesis's line of the list.
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
    def _options(self):
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


# The score that `encdec-score` adds to a table of Moses's four.
FEATURES = {"RNN0": (5,)}


@dataclasses.dataclass(frozen=True)
class PhraseFeaturesSummary(FileSummary):
    """The result of `add_phrase_features`.

    Attributes:
        lines: int. Number of lines written.
        seconds: float.
        output: the file.
        segmented: int. Number of hypotheses whose phrases are in the list.
        recovered: int. Number of hypotheses whose phrases were recovered from their features.
        unsegmented: int. Number of hypotheses whose phrases were not found; they got the mean of the other hypotheses
            of their sentence.
        lowest: int. Number of hypotheses whose phrases were not found, like those of all hypotheses of their sentence;
            they got `lowest_sum`.
        lowest_sentences: int. Number of these sentences.
        malformed: int. Number of malformed lines of the list; they got the value 0.
        malformed_pairs: int. Number of malformed lines of the table, which were left out.
    """

    segmented: int = 0
    recovered: int = 0
    unsegmented: int = 0
    lowest: int = 0
    lowest_sentences: int = 0
    malformed: int = 0
    malformed_pairs: int = 0

    @property
    def remarks(self) -> list[str]:
        """Where the phrases came from, and warnings for the user, as sentences."""
        remarks = [f"Phrases of {self.segmented:,} hypotheses stood in the list, of {self.recovered:,} were recovered."]
        if self.unsegmented:
            remarks.append(
                f"{self.unsegmented:,} hypotheses, whose phrases were not found, were written with the mean of the "
                "other hypotheses of their sentence."
            )
        if self.lowest:
            remarks.append(
                f"{self.lowest:,} hypotheses of {self.lowest_sentences:,} sentences were written with "
                f"{LOWEST_LOG_PROBABILITY:g} for each word of the sentence, the lowest value: no phrases of any "
                "hypothesis of these sentences were found."
            )
        if self.malformed:
            remarks.append(f"{self.malformed:,} malformed lines were written with a neutral score.")
        if self.malformed_pairs:
            remarks.append(f"{self.malformed_pairs:,} malformed lines of the table were left out.")
        return remarks


def add_phrase_features(
    input: FilePath,
    source: FilePath,
    phrase_table: FilePath,
    output: FilePath,
    features: Mapping[str, Sequence[int]] | None = None,
    options: PhraseFeatureOptions | None = None,
    *,
    progress: Callable[[InputLines], Progress] = Progress,
    **values: Any,
) -> PhraseFeaturesSummary:
    """Adds to each hypothesis of an n-best list the sums of log-scores of the phrase pairs that it consists of.

    This is the feature that Moses computes when it decodes with the score in its table, as in Cho et al. (2014).

    The phrases come from the list's segmentation field (Moses's `-include-segmentation-in-n-best`). Without the field
    they are recovered: phrases of the table that form the hypothesis, whose scores add up to `TranslationModel0`. If
    the list has `PhrasePenalty0` and `Distortion0`, the number of phrases and the jumps between them must fit, too. A
    word without a phrase in the table may be copied, with all log-scores 0. ln of a score is at least -100, as in
    Moses. Words are compared without factors and without Moses's escapes. See `find_segmentation` for the choice among
    several segmentations.

    Args:
        input: n-best list, plain or gzipped. "-" is the standard input.
        source: the sentences that were translated, plain or gzipped; id 0 is the first line.
        phrase_table: the table, plain or gzipped. The scores that the list was made with are the first on each line.
        output: file to write, gzipped if its name ends in .gz. "-" is the standard output.
        features: dict from the name of a new feature to the numbers of its scores in the table, from 1. Defaults to
            `None`: `{"RNN0": [5]}`, the score that `encdec-score` adds to Moses's four.
        options: PhraseFeatureOptions. Defaults to `None`: those of the command. With `on_error="keep"`, see
            `lowest_sum` for a sentence of which no hypothesis's phrases are found.
        progress: callable of the InputLines that are read, first of the table, then of the list, which returns a
            Progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Returns:
        PhraseFeaturesSummary.

    Raises:
        ConfigurationError: a ValueError, for options and features that cannot be used.
        InputError: when an input or the output cannot be used.

    Example:

        add_phrase_features("nbest.gz", "input.en", "scored.gz", "nbest.rnn.gz")

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 3.1
    """
    features, options = FEATURES if features is None else features, PhraseFeatureOptions.combined(options, values)
    _check_features(features)
    check_distinct_files(input, source, phrase_table, output)
    recovered = known = unsegmented = lowest = lowest_sentences = 0
    with NBestPairReader(input, source, options.encoding, options.on_error) as reader, open_output(output) as file:
        sentences = {tuple(model_words(sentence)) for sentence in reader.sentences}
        scores = read_phrase_scores(
            phrase_table,
            sentences,
            max(itertools.chain(*features.values())),
            encoding=options.encoding,
            on_error=options.on_error,
            progress=progress,
        )
        records = NBestFormat().check_columns(reader, [Column(ColumnKind.LOG_PROB, name) for name in features])
        with progress(reader.lines) as written:
            for sentence, group in itertools.groupby(enumerate(records, 1), key=lambda numbered: numbered[1].source):
                numbers, hypotheses = zip(*group, strict=True)
                words = [model_words(hypothesis.target) for hypothesis in hypotheses]
                source_words = model_words(sentence)
                derivations = Derivations(scores, source_words, words, options.moses_feature)
                sums: list[list[float] | None] = [None] * len(hypotheses)
                for index, hypothesis in enumerate(hypotheses):
                    try:
                        if hypothesis.problem is None:
                            sums[index] = _sums(derivations.phrases(hypothesis.raw, words[index]), features)
                    except MalformedLine as error:
                        if options.on_error == "stop":
                            raise _problem(error, reader.lines.path, numbers[index]) from None
                lines = _lines(hypotheses, sums, features, lowest_sum(len(source_words)))
                file.write(b"\n" * (written.count > 0) + b"\n".join(lines))
                written.add(len(lines))
                recovered += derivations.recovered
                with_phrases = len(lines) - sums.count(None)
                missing = sum(hypothesis.problem is None for hypothesis in hypotheses) - with_phrases
                known += with_phrases
                if with_phrases:
                    unsegmented += missing
                else:
                    lowest += missing
                    lowest_sentences += missing > 0
        if reader.lines.ended_with_newline:
            file.write(b"\n")
    return PhraseFeaturesSummary(
        written.count,
        written.seconds,
        output,
        known - recovered,
        recovered,
        unsegmented,
        lowest,
        lowest_sentences,
        reader.malformed,
        scores.malformed,
    )


def lowest_sum(source_words: int) -> float:
    """The lowest sum of log-scores that a hypothesis can have: the lowest log-score for each word of the sentence.

    A hypothesis without known phrases must not get a better value than a hypothesis of the same sentence in another
    list, whose phrases are known. Within a list all hypotheses of the sentence get this value, so it does not change
    their order.

    Args:
        source_words: int. Number of words in the sentence.
    """
    return LOWEST_LOG_PROBABILITY * max(source_words, 1)


def _check_features(features: Mapping[str, Sequence[int]]) -> None:
    if not features:
        raise ConfigurationError("found no {features}, expected one at least")
    for name, columns in features.items():
        check_feature_name(name, "features")
        if not columns or min(columns) < 1:
            raise ConfigurationError("found {features} with the scores %s, expected numbers from 1", list(columns))


def _problem(error, path, line):
    remedy = "check --source and --phrase_table"
    if isinstance(error, SearchGivenUp):
        remedy = "let Moses write segmentations (-include-segmentation-in-n-best)"
    keep = "or give --on_error=keep to write the mean of the sentence's other hypotheses"
    return InputError(error.found, error.expected, f"{remedy}, {keep}", path, line)


def _sums(phrases, features):
    """The values of all new features in a row."""
    return [sum(phrase.log_scores[column - 1] for phrase in phrases) for column in itertools.chain(*features.values())]


def _lines(
    hypotheses: Sequence[NBestPairRecord],
    values: Sequence[Sequence[float] | None],
    features: Mapping[str, Sequence[int]],
    lowest: float,
) -> list[bytes]:
    """The lines of a sentence's hypotheses with the new features.

    Hypotheses without values get the mean of the others, or the lowest value if no hypothesis has values.
    """
    size = sum(map(len, features.values()))
    zeros, known = [0.0] * size, [sums for sums in values if sums is not None]
    mean = [statistics.fmean(sums) for sums in zip(*known, strict=True)] if known else [lowest] * size
    lines = []
    for hypothesis, sums in zip(hypotheses, values, strict=True):
        if hypothesis.problem and features_of(hypothesis.raw) is None:
            lines.append(hypothesis.raw)
            continue
        numbers = zeros if hypothesis.problem else mean if sums is None else sums
        texts = map(log_prob_text, numbers)
        added = [(name, " ".join(itertools.islice(texts, len(columns)))) for name, columns in features.items()]
        lines.append(append_features(hypothesis.raw, added))
    return lines
