"""Adds scores from TensorFlow Serving to the lines of a file."""

import dataclasses
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.export.client.connection import ClientOptions, connected_to_version, retrying
from keras_encdec.export.client.model_server import Server, ServerError
from keras_encdec.formats import FilePath, InputLines, PairRecord, Record, escape, model_words, open_output, pair_format
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.metrics import measured_request
from keras_encdec.runtime.progress import FileSummary, Progress, counted
from keras_encdec.runtime.progress_state import count_error
from keras_encdec.runtime.shards import windows
from keras_encdec.scoring.pair_scorer import PairScores
from keras_encdec.scoring.record_scorer import RecordScorer, write_scored_lines
from keras_encdec.scoring.scoring_options import ScoringOptions, score_columns


@dataclasses.dataclass(frozen=True)
class ServedScoreSummary(FileSummary):
    """The result of `score_file_with_server`.

    Attributes:
        lines, seconds, output: see `FileSummary`.
        malformed: int. Number of malformed lines, which were written with a neutral score, or unchanged if they have no
            field for it.
        refused: int. Number of lines that the server refused, which were written with a neutral score.
    """

    malformed: int = 0
    refused: int = 0

    @property
    def notices(self) -> list[str]:
        """Sentences for the user about lines that the model did not score."""
        notices = []
        if self.malformed:
            lines = counted(self.malformed, "malformed lines")
            notices.append(f"{lines} got a neutral score; a line without a field for it stays unchanged.")
        if self.refused:
            notices.append(f"{counted(self.refused, 'lines')} that the server refused got a neutral score.")
        return notices


def score_file_with_server(
    server: str,
    input: FilePath,
    output: FilePath,
    options: ClientOptions | None = None,
    *,
    progress: Callable[[InputLines], Progress] = Progress,
    **values: object,
) -> ServedScoreSummary:
    """Adds scores from TensorFlow Serving to the lines of a phrase table or a list of pairs, as `score_file` does.

    The same version of the model scores the whole file, even if its label moves meanwhile. When the server refuses a
    request, the function finds the bad lines in it. It imports neither TensorFlow nor Keras.

    Args:
        server: str. Address of TensorFlow Serving: host:port for gRPC; for REST a URL, such as
            "http://localhost:8501".
        input: the file, plain or gzipped.
        output: file to write, gzipped if its name ends in .gz. It appears when it is complete.
        options: ClientOptions. The default patience is `60.0` seconds. Defaults to `None`: the defaults of the command.
        progress: shows how far the work is, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another, and for an invalid address.
        InputError: if the input cannot be read, the output cannot be written, or the server does not score.
        ImportError: if the protocol's libraries are not installed.
    """
    options = ClientOptions.combined(options, values)
    file_format = pair_format(options.format)
    check_distinct_files(input, output)
    scoring = ScoringOptions(
        format=options.format,
        unknown_count=options.unknown_count,
        token_scores=options.token_scores,
        max_tokens=None,
        on_error=options.on_error,
    )
    score_columns(file_format, scoring)  # raises for wrong options before the server is called
    with (
        connected_to_version(server, options) as pinned,
        file_format.open_reader(input, None, options.encoding, options.on_error) as reader,
        open_output(output) as file,
    ):
        scorer = RecordScorer(file_format, [ServedScorer(pinned, options.longest_wait)], scoring)
        lines = ServedLines(scorer, pinned, input, options.on_error == "keep")
        numbered = _numbered(windows(reader, options.batch_size))
        written = write_scored_lines(lines, numbered, reader.lines, [file], options.in_flight, progress)
    return ServedScoreSummary(written.count, written.seconds, output, reader.malformed, lines.refused)


def _numbered(windows: Iterable[Sequence[Record]]) -> Iterator[tuple[int, Sequence[Record]]]:
    """Yields each window with the number of its first line."""
    line = 1
    for records in windows:
        yield line, records
        line += len(records)


# A server that merges requests refuses all of them if a single pair is bad. The client therefore sends a refused pair
# again on its own, after random pauses of up to these numbers of seconds, so that it is merged with other requests.
_PAUSES = (0.05, 0.1, 0.2)


class ServedLines:
    """Adds scores to lines. When the server refuses a group of lines, it sends each half again to find the bad ones.

    Attributes:
        refused: int. Number of refused lines so far that got the neutral score.
    """

    def __init__(self, scorer: RecordScorer, server: Server, path: FilePath, keep: bool) -> None:
        self._scorer, self._server, self._path, self._keep = scorer, server, path, keep
        self.refused: int = 0
        self._lock = threading.Lock()

    def __call__(self, window: tuple[int, Sequence[Record]]) -> list[list[bytes]]:
        """Adds scores to the lines of records, which come with the number of the first line.

        Raises:
            InputError: if the server fails or, unless `keep` is set, refuses a line.
        """
        return [self._lines(*window)]

    def _lines(self, line: int, records: Sequence[Record]) -> list[bytes]:
        try:
            return self._scorer(records)[0]
        except ServerError as error:
            if error.code != "INVALID_ARGUMENT":
                raise error.report(self._server, self._path, line) from error
        if len(records) == 1:
            return self._single(line, records[0])
        half = len(records) // 2
        return self._lines(line, records[:half]) + self._lines(line + half, records[half:])

    def close(self) -> None:
        """Cancels calls in other threads."""
        self._scorer.close()

    def _single(self, line: int, record: Record) -> list[bytes]:
        for pause in _PAUSES:
            time.sleep(random.uniform(0, pause))
            try:
                return self._scorer([record])[0]
            except ServerError as error:
                refusal = error
                if error.code != "INVALID_ARGUMENT":
                    break
        report = refusal.report(self._server, self._path, line)
        if refusal.code != "INVALID_ARGUMENT" or not self._keep:
            raise report from refusal
        with self._lock:
            self.refused += 1
            count_error(str(report))
        # Every record is a named tuple, but the protocol `Record` does not declare the methods of named tuples.
        malformed = cast("PairRecord", record)._replace(problem=str(report))
        return self._scorer([malformed])[0]


class ServedScorer:
    """A PairScorer that calls a model on a server. It reads the same words as `TextScorer`.

    A model with the signature "tokenize" reads raw text and tokenizes it, including the words of a phrase table. Other
    models read strings of tokens and remove Moses's escapes.

    Args:
        server: Server.
        patience: float. Seconds for which a call is repeated while the server is UNAVAILABLE.

    Raises:
        ServerError: if the call for the model's signatures fails.
        InputError: if the model lacks the signature "score" or "score_tokens".
    """

    def __init__(self, server: Server, patience: float) -> None:
        self._server, self._closed = server, threading.Event()
        self._retries = retrying(patience, self._closed)
        _, signatures = self._retries(server.metadata)
        for name in ("score", "score_tokens"):
            if {"source", "target"} - signatures.get(name, {}).get("inputs", {}).keys():
                raise InputError(
                    f"found a model with the signatures {', '.join(sorted(signatures))} on the server at "
                    f"{server.address}",
                    f"expected {name} of source and target",
                    "check --model_name, or export the model with keras-encdec",
                )
        self._raw = "tokenize" in signatures

    def close(self) -> None:
        """Cancels calls in other threads; later calls fail."""
        self._closed.set()
        self._server.close()

    def all_words(self, pairs: Sequence[tuple[str, str]], factored: bool = False) -> list[WordPair]:
        """See `PairScorer.all_words`. For a model of raw text, each side is a single word: the server tokenizes it."""
        if self._raw:
            return [([source], [target]) for source, target in pairs]
        return [(model_words(source, factored), model_words(target, factored)) for source, target in pairs]

    def score_pairs(
        self,
        pairs: Sequence[WordPair],
        *,
        token_log_probs: bool = False,
        unknown_count: bool = False,
        attention: bool = False,
    ) -> PairScores:
        """See `PairScorer.score_pairs`. Makes a single call to the server.

        Raises:
            ServerError: if the call fails.
            ValueError: for `attention=True`, because a served model does not return attention with scores.
        """
        if attention:
            raise ValueError("found attention=True with a served model, expected False")
        if not pairs:
            return PairScores(np.zeros(0))
        sources, targets = zip(*pairs, strict=True)
        inputs = {"source": self._strings(sources), "target": self._strings(targets)}
        signature = "score_tokens" if token_log_probs else "score"
        names = ["token_log_probs", "token_count"] if token_log_probs else ["log_prob"]
        names += ["unknown_count"] if unknown_count else []
        outputs = self._retries(self._predict, signature, inputs, names)
        for name in names:
            _check_shape(name, outputs.get(name, np.zeros(0)), len(pairs))
        counts = [int(count) for count in outputs["unknown_count"]] if unknown_count else []
        if not token_log_probs:
            return PairScores(_finite("log_prob", outputs), unknown_count=counts)
        rows = zip(_finite("token_log_probs", outputs), outputs["token_count"].tolist(), strict=True)
        tokens = [row[: _checked_count(count, len(row))] for row, count in rows]
        return PairScores(np.array([row.sum() for row in tokens]), tokens, counts)

    def _predict(self, signature: str, inputs: dict[str, list[bytes]], outputs: list[str]) -> dict[str, np.ndarray]:
        """Calls the server once. Raises UNAVAILABLE if the server refuses another request merged with this one."""
        try:
            with measured_request():
                return self._server.predict(signature, inputs, outputs)
        except ServerError as error:
            if self._is_about_another_request(error, inputs):
                raise ServerError(
                    "UNAVAILABLE", f"it refused a request merged with this one: {error.message}"
                ) from error
            raise

    def _is_about_another_request(self, error: ServerError, inputs: Mapping[str, Sequence[bytes]]) -> bool:
        if re.search("have different shapes|have different data types", error.message):
            return True  # the inputs of this request have the same shape and data type
        if error.code != "INVALID_ARGUMENT":
            return False
        # The error message describes a bad pair. If no pair of this request matches, it belongs to another request.
        if size := re.search(r"found a (source|target) of (\d+) (tokens|bytes)", error.message):
            side, number, unit = size.groups()
            if unit == "tokens" and self._raw:
                return False  # only the server knows the tokens, so that this cannot be checked
            sizes = {len(string if unit == "bytes" else re.findall(rb"[^ \t]+", string)) for string in inputs[side]}
            return int(number) not in sizes
        if "not UTF-8" in error.message:
            texts = (string for strings in inputs.values() for string in strings)
            return all(text.decode(errors="ignore").encode() == text for text in texts)
        return bool(re.search("of shape|sources and targets", error.message))

    def _strings(self, phrases: Sequence[Sequence[str]]) -> list[bytes]:
        if self._raw:
            # The tokenizer reads only UTF-8: a byte that could not be decoded becomes "?".
            return [" ".join(words).encode("utf-8", "replace") for words in phrases]
        return [escape(" ".join(words)).encode("utf-8", "surrogateescape") for words in phrases]


def _check_shape(name: str, values: np.ndarray, pairs: int) -> None:
    """Raises ServerError for an output without a row for each pair."""
    if values.ndim != 1 + (name == "token_log_probs") and values.size:
        raise ServerError("INTERNAL", f"{name} of shape {values.shape} for {pairs} pairs")
    if len(values) != pairs:
        raise ServerError("INTERNAL", f"{len(values)} values of {name} for {pairs} pairs")


def _checked_count(count: int, width: int) -> int:
    """Returns the number of tokens of a row. Raises ServerError if the row cannot have it."""
    if not (isinstance(count, int) and 1 <= count <= width):
        raise ServerError("INTERNAL", f"a token_count of {count} for {width} token_log_probs")
    return count


def _finite(name: str, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Converts an output to a float64 array. Raises ServerError for a number that is not finite."""
    values = outputs[name].astype(np.float32).astype(np.float64)
    if not np.isfinite(values).all():
        raise ServerError("INTERNAL", f"a {name} that is not a number")
    return values
