"""Adds the scores of a phrase table to an n-best list: sums over the phrases of each hypothesis, as features."""

import dataclasses
import itertools
import operator
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.errors import InputError, shortened
from keras_encdec.formats import (
    FilePath,
    InputLines,
    NBestPairReader,
    append_features,
    model_words,
    open_output,
    parse_features,
)
from keras_encdec.formats.feature_weights import TRANSLATION_MODEL
from keras_encdec.formats.nbest import NBestPairRecord
from keras_encdec.formats.nbest_line import check_feature_name, check_new_features, feature_names
from keras_encdec.formats.pair_format import log_prob_text
from keras_encdec.formats.phrase_table import LOWEST_LOG_PROBABILITY
from keras_encdec.formats.record_reader import MalformedLine
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.progress import FileSummary, Progress, counted
from keras_encdec.smt.nbest.hypothesis_phrases import HypothesisPhrases, SearchGivenUp
from keras_encdec.smt.nbest.phrase_scores import PhraseScores, PositionedPhrase, read_phrase_scores
from keras_encdec.task_options import EncodingOption, MalformedLinesOption

# The score that `encdec-score` adds to the four scores of a Moses table.
FEATURES = {"RNN0": (5,)}


@dataclasses.dataclass(frozen=True)
class PhraseFeatureOptions(EncodingOption, MalformedLinesOption):
    """Options of `add_phrase_features`."""

    moses_feature: str = hyperparameter(
        TRANSLATION_MODEL,
        "Name of the phrase table's feature in the list; its values are used to recover the phrases if the list has no "
        "segmentation.",
    )
    on_error: str = hyperparameter(
        "stop",
        "What to do with a malformed line, or a hypothesis whose phrases are not found: stop with an error (stop); or "
        "count it and continue (keep). With keep, a malformed line of the list gets 0, and one of the table is left "
        "out. A hypothesis whose phrases are not found gets the mean of the other hypotheses of its sentence; if the "
        "phrases of none are found, each gets -100 for each word of the sentence.",
        choices=("stop", "keep"),
    )


@dataclasses.dataclass(frozen=True)
class PhraseFeaturesSummary(FileSummary):
    """The result of `add_phrase_features`.

    Attributes:
        lines, seconds, output: see `FileSummary`.
        segmented: int. Number of hypotheses whose phrases are in the list.
        recovered: int. Number of hypotheses whose phrases were recovered from their features.
        unsegmented: int. Number of hypotheses whose phrases were not found; they got the mean of the other hypotheses
            of their sentence.
        lowest: int. Number of hypotheses of the sentences for which the phrases of no hypothesis were found; they got
            `lowest_sum`.
        lowest_sentences: int. Number of these sentences.
        malformed: int. Number of malformed lines of the list; those with features got the value 0.
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
    def notices(self) -> list[str]:
        """Sentences for the user: where the phrases came from, and warnings."""
        notices = []
        if self.recovered:
            notices.append(
                f"The list does not contain the phrases of {self.recovered:,} of "
                f"{self.recovered + self.segmented:,} hypotheses; they were recovered from the scores of the table."
            )
        if self.unsegmented:
            notices.append(
                f"{counted(self.unsegmented, 'hypotheses')}, whose phrases were not found, got the mean of the other "
                "hypotheses of the sentence."
            )
        if self.lowest:
            notices.append(
                f"{counted(self.lowest, 'hypotheses')} of {counted(self.lowest_sentences, 'sentences')} got "
                f"{LOWEST_LOG_PROBABILITY:g} for each word of the sentence, the lowest value: no phrases of any "
                "hypothesis of the sentence were found."
            )
        if self.malformed:
            lines = counted(self.malformed, "malformed lines")
            notices.append(f"{lines} got the value 0; a line without features stays unchanged.")
        if self.malformed_pairs:
            notices.append(f"Left out of the table: {counted(self.malformed_pairs, 'malformed lines')}.")
        return notices


def add_phrase_features(
    input: FilePath,
    source: FilePath,
    phrase_table: FilePath,
    output: FilePath,
    features: Mapping[str, Sequence[int]] | None = None,
    options: PhraseFeatureOptions | None = None,
    *,
    progress: Callable[[InputLines], Progress] = Progress,
    **values: object,
) -> PhraseFeaturesSummary:
    """Adds to each hypothesis of an n-best list the sums of log-scores of the phrase pairs that it consists of.

    This is the feature that Moses computes when it decodes with the score in its table, as in Cho et al. (2014).

    The phrases come from the list's segmentation field (Moses's `-include-segmentation-in-n-best`). If several lines of
    the table have the same pair of phrases without factors, the lines whose scores add up to `TranslationModel0` are
    used. Without the field, the phrases are recovered: those of the table that form the hypothesis and whose scores add
    up to `TranslationModel0`. If the list has `PhrasePenalty0` and `Distortion0`, the number of phrases and the jumps
    between them must fit, too. A word without a phrase in the table may be copied, or dropped if no hypothesis of its
    sentence has it (`-drop-unknown`), with all log-scores 0. ln of a score is at least -100, as in Moses. Words are
    compared without factors and without Moses's escapes. See `find_segmentation` for the choice among several
    segmentations.

    Args:
        input: n-best list, plain or gzipped. "-" means standard input.
        source: the sentences that were translated, plain or gzipped; id 0 is the first line.
        phrase_table: the table, plain or gzipped. The scores that the list was made with are the first on each line.
        output: file to write, gzipped if its name ends in .gz. "-" means standard output.
        features: dict from the name of a new feature to the numbers of its scores in the table, from 1. Defaults to
            `None`: `{"RNN0": [5]}`, the score that `encdec-score` adds to Moses's four.
        options: PhraseFeatureOptions. Defaults to `None`: those of the command. With `on_error="keep"`, see
            `lowest_sum` for a sentence if the phrases of none of its hypotheses are found.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options and features that cannot be used.
        InputError: if an input or the output cannot be used.

    Example:

        add_phrase_features("nbest.gz", "input.en", "scored.gz", "nbest.rnn.gz")

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 3.1
    """
    by_default, options = features is None, PhraseFeatureOptions.combined(options, values)
    features = FEATURES if features is None else features
    _check_features(features)
    check_distinct_files(input, source, phrase_table, output)
    with NBestPairReader(input, source, options.encoding, options.on_error) as reader, open_output(output) as file:
        others = iter(reader)
        first = next(others)
        if by_default:
            _check_default(first, options.moses_feature, reader.lines)
        sentences = {tuple(model_words(sentence)) for sentence in reader.sentences}
        scores = read_phrase_scores(
            phrase_table,
            sentences,
            max(itertools.chain(*features.values())),
            encoding=options.encoding,
            on_error=options.on_error,
            progress=progress,
        )
        writer = _FeatureWriter(scores, features, options, reader.lines.path)
        with progress(reader.lines) as written:
            records = _with_ids(reader, itertools.chain([first], others), features)
            for _, group in itertools.groupby(records, key=operator.itemgetter(0)):
                _, numbers, hypotheses = zip(*group, strict=True)
                lines = writer.lines(model_words(hypotheses[0].source), hypotheses, numbers)
                file.write(b"\n" * (written.count > 0) + b"\n".join(lines))
                written.add(len(lines))
        if reader.lines.ended_with_newline:
            file.write(b"\n")
    return PhraseFeaturesSummary(
        written.count,
        written.seconds,
        output,
        **writer.counts,
        malformed=reader.malformed,
        malformed_pairs=scores.malformed,
    )


def _with_ids(
    reader: NBestPairReader, records: Iterable[NBestPairRecord], features: Iterable[str]
) -> Iterator[tuple[int | None, int, NBestPairRecord]]:
    """Yields the id, the number and the record of each line, which must not have the features yet.

    A malformed line gets the id of the line before it.
    """
    sentence = None
    for number, record in enumerate(records, 1):
        place = reader.lines.path, reader.lines.line_number
        check_new_features(feature_names(record.raw), features, *place, "rename the new one with --feature")
        sentence = sentence if record.id is None else record.id
        yield sentence, number, record


class _FeatureWriter:
    """Writes the lines of a sentence's hypotheses with the new features.

    Attributes:
        counts: dict of int by attribute of PhraseFeaturesSummary: how hypotheses so far got their values.
    """

    def __init__(
        self,
        scores: PhraseScores,
        features: Mapping[str, Sequence[int]],
        options: PhraseFeatureOptions,
        list_path: FilePath,
    ) -> None:
        self._scores, self._features, self._options, self._list_path = scores, features, options, list_path
        self.counts = dict.fromkeys(("segmented", "recovered", "unsegmented", "lowest", "lowest_sentences"), 0)

    def lines(
        self, source_words: Sequence[str], hypotheses: Sequence[NBestPairRecord], numbers: Sequence[int]
    ) -> list[bytes]:
        """Returns the lines of all hypotheses of a sentence; `numbers` are their line numbers in the list."""
        words = [model_words(hypothesis.target) for hypothesis in hypotheses]
        phrases = HypothesisPhrases(self._scores, source_words, words, self._options.moses_feature)
        sums: list[list[float] | None] = [None] * len(hypotheses)
        for index, hypothesis in enumerate(hypotheses):
            try:
                if hypothesis.problem is None:
                    sums[index] = _sums(phrases.phrases(hypothesis.raw, words[index]), self._features)
            except MalformedLine as error:
                if self._options.on_error == "stop":
                    raise _problem(error, self._list_path, numbers[index]) from None
        self._count(hypotheses, sums, phrases.recovered)
        return _lines(hypotheses, sums, self._features, lowest_sum(len(source_words)))

    def _count(
        self, hypotheses: Sequence[NBestPairRecord], sums: Sequence[Sequence[float] | None], recovered: int
    ) -> None:
        known = len(sums) - sums.count(None)
        unknown = sum(hypothesis.problem is None for hypothesis in hypotheses) - known
        self.counts["segmented"] += known - recovered
        self.counts["recovered"] += recovered
        if known:
            self.counts["unsegmented"] += unknown
        else:
            self.counts["lowest"] += unknown
            self.counts["lowest_sentences"] += unknown > 0


def lowest_sum(source_words: int) -> float:
    """Returns the lowest sum of log-scores of a hypothesis: -100 for each word of the sentence; -100 if it is empty.

    All hypotheses of a sentence get this value if the phrases of none of them are found, so it does not change their
    order. As the lowest value, it is never better than that of a hypothesis of the same sentence in another list.
    """
    return LOWEST_LOG_PROBABILITY * max(source_words, 1)


def _check_features(features: Mapping[str, Sequence[int]]) -> None:
    if not features:
        raise ConfigurationError("found no {features}, expected at least one")
    for name, columns in features.items():
        check_feature_name(name, "features")
        if not columns or min(columns) < 1:
            raise ConfigurationError("found {features} with the scores %s, expected numbers, 1 or more", list(columns))


def _check_default(first: NBestPairRecord, moses_feature: str, lines: InputLines) -> None:
    """Raises InputError if the score of the default feature is one that the list already has."""
    [(name, [column])] = FEATURES.items()
    scores = len(parse_features(first.features).get(moses_feature, []))
    if scores >= column:
        expected = f"expected {column - 1}, as {name} is the score {column} of the table"
        remedy = f"give the number of the added score (--feature={name}={scores + 1})"
        raise lines.error(f"found {scores} values of {shortened(moses_feature)}", expected, remedy)


def _problem(error: MalformedLine, path: FilePath, line: int) -> InputError:
    remedy = "check --source and --phrase_table"
    if isinstance(error, SearchGivenUp):
        remedy = "let Moses write segmentations (-include-segmentation-in-n-best)"
    keep = "or give --on_error=keep to write the mean of the sentence's other hypotheses"
    return InputError(error.found, error.expected, f"{remedy}, {keep}", path, line)


def _sums(phrases: Sequence[PositionedPhrase], features: Mapping[str, Sequence[int]]) -> list[float]:
    """Returns the values of all new features as one list."""
    return [sum(phrase.log_scores[column - 1] for phrase in phrases) for column in itertools.chain(*features.values())]


def _lines(
    hypotheses: Sequence[NBestPairRecord],
    values: Sequence[Sequence[float] | None],
    features: Mapping[str, Sequence[int]],
    lowest: float,
) -> list[bytes]:
    """Appends the new features to the lines of a sentence's hypotheses.

    Hypotheses without values get the mean of the others, or the lowest value if no hypothesis has values.
    """
    size = sum(map(len, features.values()))
    zeros, known = [0.0] * size, [sums for sums in values if sums is not None]
    mean = [statistics.fmean(sums) for sums in zip(*known, strict=True)] if known else [lowest] * size
    lines = []
    for hypothesis, sums in zip(hypotheses, values, strict=True):
        if hypothesis.problem and not feature_names(hypothesis.raw):
            lines.append(hypothesis.raw)
            continue
        numbers = zeros if hypothesis.problem else mean if sums is None else sums
        texts = map(log_prob_text, numbers)
        added = [(name, " ".join(itertools.islice(texts, len(columns)))) for name, columns in features.items()]
        lines.append(append_features(hypothesis.raw, added))
    return lines
