"""Lines of a file with a model's scores on them."""

import contextlib
import itertools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np

from keras_encdec.configuration import ConfigurationError
from keras_encdec.formats import Column, ColumnKind, InputLines, PairFormat, Record, format_names, model_words
from keras_encdec.formats.pair_format import DECIMALS
from keras_encdec.runtime.progress import Progress
from keras_encdec.runtime.workers import in_order, threads
from keras_encdec.scoring.pair_scorer import PairScorer
from keras_encdec.scoring.scoring_options import ScoringOptions

FEATURE_NAME = "RNN0"


class RecordScorer:
    """Adds scores to the lines of a format.

    Where a format can hold the log-probabilities of tokens, ln p of a target is the sum of those of its tokens as
    they are rounded, whether or not they are written, so that columns add up to the digit.

    Args:
        pair_format: PairFormat, whose lines can be written again.
        scorers: list of PairScorer, a column each, the first the forward model's.
        options: ScoringOptions, which say the columns and the longest pair that is scored. A longer one gets neutral
            values, as a malformed line does.
        alignment_line: callable of source words, target words and what the forward model's target tokens attend to,
            to the line of an alignment, see `keras_encdec.formats.alignments`. Defaults to `None`: no alignments.

    Attributes:
        columns: list of Column, those that are added.
        too_long: int. Pairs so far that were longer.

    Raises:
        ConfigurationError: see `score_columns`.
    """

    def __init__(
        self,
        pair_format: PairFormat,
        scorers: Sequence[PairScorer],
        options: ScoringOptions,
        alignment_line: Callable[[Sequence[str], Sequence[str], np.ndarray], str] | None = None,
    ) -> None:
        self._format, self._scorers, self._options = pair_format, scorers, options
        self._alignment_line = alignment_line
        self.columns = score_columns(pair_format, options, len(scorers))
        self.too_long: int = 0
        self._lock = threading.Lock()

    def __call__(self, records: Sequence[Record]) -> list[list[bytes]]:
        """The lines of records with their scores; malformed ones, and too long ones, get neutral values.

        Args:
            records: of the format's reader.

        Returns:
            list of lists of bytes, lines without line feed: those with the scores and, where they are asked for, those
            of the alignments, which are empty for records with neutral values.
        """
        good = [record for record in records if record.problem is None]
        words = self._words(good)
        if self._options.max_tokens is not None and (long := self._long(words)):
            with self._lock:
                self.too_long += len(long)
            words = [[pair for i, pair in enumerate(pairs) if i not in long] for pairs in words]
            problem = f"found more than {self._options.max_tokens} tokens"
            those = {id(good[i]) for i in long}
            records = [record._replace(problem=problem) if id(record) in those else record for record in records]
        values, attention = self._values(words)
        lines = [self._format.with_columns(records, self.columns, values)]
        if self._alignment_line:
            lines.append(self._alignments(records, words[0], attention))
        return lines

    def close(self) -> None:
        """Drops what is still to be computed."""
        for scorer in self._scorers:
            scorer.close()

    def _values(self, words):
        """The values of each column, from the pairs of words of each scorer, and the attention in each pair."""
        log_probs, counts, tokens, attention = [], [], [], None
        of_tokens = ColumnKind.TOKEN_LOG_PROBS in self._format.column_texts
        for number, (scorer, pairs) in enumerate(zip(self._scorers, words, strict=True)):
            forward = number == 0
            names = ["token_log_probs" if of_tokens else "log_prob"] + ["unknown_count"] * (
                forward and self._options.unknown_count
            )
            if forward and self._alignment_line:
                results, *unknown, attention = scorer.columns(pairs, [*names, "attention"])
            else:
                results, *unknown = scorer.columns(pairs, names)
            if of_tokens:
                results = [np.round(row, DECIMALS) for row in results]
                if forward and self._options.token_scores:
                    tokens.append(results)
                results = [row.sum() for row in results]
            log_probs.append(results)
            counts += unknown
            if forward and self._options.length:
                counts.append([len(target) + 1 for _, target in pairs])
        return log_probs + counts + tokens, attention

    def _alignments(self, records, pairs, attention):
        """The lines of the alignments of all records, from the pairs of those that were scored."""
        scored = zip(pairs, attention, strict=True)
        lines = []
        for record in records:
            line = ""
            if record.problem is None:
                (source, target), weights = next(scored)
                line = self._alignment_line(source, target, weights)
            lines.append(line.encode())
        return lines

    def _words(self, records):
        """The pairs of words of the records, for each scorer."""
        factored = self._format.is_factored
        if not self._format.is_tokenized:
            texts = [(record.source, record.target) for record in records]
            return [scorer.all_words(texts, factored) for scorer in self._scorers]
        # Text that holds tokens in any case. A phrase table is sorted by source: each is taken apart once.
        sources = {text: model_words(text, factored) for text in {record.source for record in records}}
        pairs = [(sources[record.source], model_words(record.target, factored)) for record in records]
        return [pairs] * len(self._scorers)

    def _long(self, words):
        """Indices of the pairs that have more tokens on a side than there may be."""
        most = self._options.max_tokens
        return {
            i for pairs in words for i, (source, target) in enumerate(pairs) if len(source) > most or len(target) > most
        }


def score_columns(pair_format: PairFormat, options: ScoringOptions, num_scorers: int = 1) -> list[Column]:
    """The columns of results that scoring adds to each line, in their order.

    Args:
        pair_format: PairFormat.
        options: ScoringOptions.
        num_scorers: int. Models, a log-probability each. Defaults to `1`.

    Returns:
        list of Column.

    Raises:
        ConfigurationError: where lines of the format cannot hold them, or two would have one name.
    """
    first = options.feature_name or FEATURE_NAME
    stem, number = re.fullmatch(r"(.*?)(\d*)", first, re.DOTALL).groups()
    names = [first] + [f"{stem}{int(number or 0) + i}" for i in range(1, num_scorers)]
    columns = [Column(ColumnKind.LOG_PROB, name) for name in names]
    optional = (
        ("unknown_count", options.unknown_count, Column(ColumnKind.COUNT, "Unknown0")),
        ("length", options.length, Column(ColumnKind.COUNT, "Length0")),
        ("token_scores", options.token_scores, Column(ColumnKind.TOKEN_LOG_PROBS, "Tokens0")),
    )
    if ColumnKind.LOG_PROB not in pair_format.column_texts:
        able = ", ".join(format_names(ColumnKind.LOG_PROB))
        raise ConfigurationError("found {format}=%s, expected one of %s to score", pair_format.name, able)
    for argument, wanted, column in optional:
        if not wanted:
            continue
        if column.kind not in pair_format.column_texts:
            able = " or ".join(format_names(column.kind))
            raise ConfigurationError(
                f"found {{{argument}}} with {{format}}=%s, expected it with {{format}}=%s", pair_format.name, able
            )
        columns.append(column)
    names = [column.name for column in columns]
    if pair_format.has_column_names and len(set(names)) < len(names):
        raise ConfigurationError("found the names %s of new features, expected each once", ", ".join(names))
    return columns


class WindowScorer(Protocol):
    """What makes the new lines of a window of records, such as a RecordScorer."""

    def __call__(self, window: Any) -> Sequence[list[bytes]]:
        """The window's lines, without line feed, for each file that is written. Called in several threads."""
        ...

    def close(self) -> None:
        """Drops what is still to be computed."""
        ...


def windows(records: Iterable[Record], size: int) -> Iterator[list[Record]]:
    """Yields lists of consecutive records, each of the size but the last."""
    records = iter(records)
    while window := list(itertools.islice(records, size)):
        yield window


def write_scored_lines(
    scorer: WindowScorer,
    windows: Iterable[Any],
    lines: InputLines,
    outputs: Sequence[BinaryIO],
    side_by_side: int,
    progress: Callable[[InputLines], Progress] = Progress,
) -> Progress:
    """Writes the lines that a scorer makes of windows, in order, and closes it.

    While some windows are scored, others are read and written.

    Args:
        scorer: WindowScorer.
        windows: iterable of what the scorer takes.
        lines: InputLines that the windows are read from.
        outputs: list of binary files, open for writing, as many as the scorer makes lists of lines.
        side_by_side: int. Windows in work at a time.
        progress: callable of `lines`, which gives what is told of the lines written. Defaults to `Progress`.

    Returns:
        Progress, of the lines written.
    """
    started = False
    with (
        progress(lines) as written,
        threads(side_by_side) as executor,
        contextlib.closing(scorer),  # first of all, so that after an error nothing is waited for
    ):
        for new_lines in in_order(executor, scorer, windows, side_by_side):
            for output, part in zip(outputs, new_lines, strict=True):
                output.write(b"\n" * started + b"\n".join(part))
            written.add(len(new_lines[0]))
            started = True
        if lines.ended_with_newline:
            for output in outputs:
                output.write(b"\n")
    return written
