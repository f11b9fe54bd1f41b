"""Sorts an n-best list by the weighted sums of its features."""

import dataclasses
from collections.abc import Callable

from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.errors import InputError
from keras_encdec.formats import (
    FeatureWeights,
    FilePath,
    InputLines,
    open_output,
    parse_features,
    read_nbest_weights,
    replace_total,
)
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.formats.feature_weights import Weights, check_weights
from keras_encdec.formats.nbest import SentenceHypotheses, hypotheses_by_sentence, with_word_penalty
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.progress import FileSummary, Progress
from keras_encdec.task_options import EncodingOption

# Maximum number of consecutive sentences without hypotheses. A larger gap comes from a wrong id and would fill the
# disk with empty lines.
MAX_MISSING = 1_000_000

FORMATS = ("nbest", "text")


@dataclasses.dataclass(frozen=True)
class RerankOptions(EncodingOption):
    """Options of `rerank`."""

    format: str = hyperparameter(
        "nbest",
        "The sorted list with new totals (nbest); or the best hypothesis of each sentence, one per line, and an empty "
        "line for a sentence without hypotheses (text).",
        choices=FORMATS,
    )
    word_penalty: bool = hyperparameter(
        False, "Add the feature WordPenalty0, minus the number of words, to a list that lacks it."
    )


@dataclasses.dataclass(frozen=True)
class RerankSummary(FileSummary):
    """The result of `rerank`.

    Attributes:
        lines, seconds, output: see `FileSummary`.
        missing: int. Number of empty lines among them, one for each sentence without hypotheses.
        is_text: bool. Whether each line is the best hypothesis of a sentence, not a line of a list.
    """

    missing: int = 0
    is_text: bool = False

    @property
    def unit(self) -> str:
        """See `FileSummary`."""
        return "sentences" if self.is_text else "lines"


def rerank(
    input: FilePath,
    output: FilePath,
    weights: FilePath | None = None,
    options: RerankOptions | None = None,
    *,
    other_weights: Weights | None = None,
    progress: Callable[[InputLines], Progress] = Progress,
    **values: object,
) -> RerankSummary:
    """Sorts an n-best list by the weighted sums of its features, or takes the best hypothesis of each sentence.

    Args:
        input: n-best list with all features, plain or gzipped. "-" means standard input.
        output: file to write, gzipped if its name ends in .gz. "-" means standard output.
        weights: moses.ini, or a file of lines "Name= w [w ...]". Penalties that Moses does not write into its
            lists, such as the penalty of unknown words, are not part of the new totals. Optional.
        options: RerankOptions. Defaults to `None`: those of the command. Hypotheses with equal totals keep their
            order.
        other_weights: dict from feature name to list of float; they replace those of the same names in `weights`.
            Optional.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used, and if there are no weights.
        InputError: if the list or the weights cannot be read, or their features differ.

    Example:

        rerank("nbest.gz", "best.txt", "moses.ini", format="text", other_weights={"RNN0": [0.3]})
    """
    options = RerankOptions.combined(options, values)
    if weights is None and not other_weights:
        raise ConfigurationError("found neither {weights} nor {other_weights}, expected the weights to rank by")
    check_distinct_files(input, output, weights)
    feature_weights, file_encoding = _feature_weights(weights, other_weights or {}), FileEncoding(options.encoding)
    make, missing = _ranked if options.format == "nbest" else _best, 0
    with InputLines(input) as lines, open_output(output) as file, progress(lines) as written:
        for sentence in hypotheses_by_sentence(lines):
            for hypothesis in sentence.hypotheses:
                file_encoding.decode_line(hypothesis.raw, lines.path, hypothesis.line_number)
            if options.word_penalty:
                hypotheses = [with_word_penalty(hypothesis, lines.path) for hypothesis in sentence.hypotheses]
                sentence = dataclasses.replace(sentence, hypotheses=hypotheses)
            totals = [
                feature_weights.total(parse_features(hypothesis.parsed.features), lines.path, hypothesis.line_number)
                for hypothesis in sentence.hypotheses
            ]
            made = make(sentence, totals, lines)
            mark = sentence.mark if options.format == "nbest" else b""
            file.write(mark + b"\n" * (written.count > 0) + b"\n".join(made))
            written.add(len(made))
            missing += sentence.missing
        if lines.ended_with_newline or not made[-1]:  # an empty line needs its line feed
            file.write(b"\n")
    is_text = options.format == "text"
    return RerankSummary(written.count, written.seconds, output, missing if is_text else 0, is_text)


def _feature_weights(path: FilePath | None, other_weights: Weights) -> FeatureWeights:
    check_weights(other_weights)
    try:
        weights, unlisted = read_nbest_weights(path) if path is not None else ({}, set())
    except InputError as error:
        remedy = f"{error.remedy}, or give another file with --weights"
        raise InputError(error.found, error.expected, remedy, error.path, error.line) from None
    return FeatureWeights({**weights, **other_weights}, unlisted - other_weights.keys())


def _ranked(sentence: SentenceHypotheses, totals: list[float], lines: InputLines) -> list[bytes]:
    """Returns the lines of all hypotheses, the best first."""
    ranked = sorted(zip(totals, sentence.hypotheses, strict=True), key=lambda pair: -pair[0])
    return [replace_total(hypothesis.raw, f"{total:.6g}") for total, hypothesis in ranked]


def _best(sentence: SentenceHypotheses, totals: list[float], lines: InputLines) -> list[bytes]:
    """Returns an empty line for each missing sentence, and the best hypothesis."""
    if sentence.missing > MAX_MISSING:
        before = f" after {sentence.previous_id}" if sentence.previous_id >= 0 else ", the first one"
        expected = f"expected at most {MAX_MISSING:,} sentences without hypotheses"
        line = sentence.hypotheses[0].line_number
        raise lines.error(f"found the id {sentence.id}{before}", expected, "correct the id", line)
    best = sentence.hypotheses[totals.index(max(totals))]
    return [b""] * sentence.missing + [best.parsed.hypothesis]
