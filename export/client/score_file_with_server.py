"""A file written again with scores from a server."""

import contextlib
import dataclasses
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.export.client.connection import DEADLINE, IN_FLIGHT, PATIENCE, Server, connect, labelled_version
from keras_encdec.export.client.server_error import ModelName, Retries, ServerError
from keras_encdec.formats import InputLines, escape, model_words, open_output, pair_format
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.progress import FileSummary, Progress
from keras_encdec.scoring.pair_scorer import PairScores, WordPair
from keras_encdec.scoring.record_scorer import RecordScorer, score_columns, windows, write_scored_lines
from keras_encdec.scoring.scoring_options import ScoringOptions

# A server that merges requests refuses all of them for one bad pair: a lone pair is asked for again after
# up to these numbers of seconds, so that it does not come together with the bad one each time.
_PAUSES = (0.05, 0.1, 0.2)


class ServedLines:
    """Adds scores to lines; of lines whose pairs a server refuses, finds the ones at fault.

    Lines that are refused together are asked for in halves.

    Args:
        scorer: RecordScorer of a ServedScorer.
        server: Server, for reports.
        path: the input file, for reports.
        keep: bool. Whether a refused line passes with the neutral score; else it ends the scoring.

    Attributes:
        refused: int. Lines that passed with the neutral score so far.
    """

    def __init__(self, scorer: RecordScorer, server: Server, path: str | os.PathLike, keep: bool) -> None:
        self._scorer, self._server, self._path, self._keep = scorer, server, path, keep
        self.refused: int = 0
        self._lock = threading.Lock()

    def __call__(self, window: tuple[int, list[Any]]) -> list[list[bytes]]:
        """Adds scores.

        Args:
            window: `(line, records)`: the number of the first line, and records of consecutive lines.

        Returns:
            list of one list of bytes, the lines without line feed.

        Raises:
            InputError: when the server fails or, unless they are kept, refuses a line.
        """
        return [self._lines(*window)]

    def _lines(self, line, records):
        try:
            return self._scorer(records)[0]
        except ServerError as error:
            if error.code != "INVALID_ARGUMENT":
                raise error.report(self._server, self._path, line) from error
        if len(records) == 1:
            return self._alone(line, records[0])
        half = len(records) // 2
        return self._lines(line, records[:half]) + self._lines(line + half, records[half:])

    def close(self) -> None:
        """Ends calls that are under way in other threads."""
        self._scorer.close()

    def _alone(self, line, record):
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
        return self._scorer([record._replace(problem=str(report))])[0]


class ServedScorer:
    """A PairScorer by a model on a server, which reads the words that `TextScorer` would read.

    A model that has the signature "tokenize" reads raw text and tokenizes it, a phrase table's words
    too; another reads strings of tokens and takes Moses's escapes off.

    Args:
        server: Server.
        retries: Retries.

    Raises:
        ServerError: when the server does not say which signatures the model has.
        InputError: when the model has not the signatures needed.
    """

    def __init__(self, server: Server, retries: Retries) -> None:
        self._server, self._retries = server, retries
        _, signatures = retries(server.metadata)
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
        """Ends calls that are under way in other threads; further ones fail."""
        self._retries.close()
        self._server.close()

    def all_words(self, pairs: Sequence[tuple[str, str]], factored: bool = False) -> list[WordPair]:
        """See `PairScorer.all_words`. Raw text is returned as one word, which the server tokenizes."""
        if self._raw:
            return [([source], [target]) for source, target in pairs]
        return [tuple(model_words(side, factored) for side in pair) for pair in pairs]

    def score_pairs(
        self,
        pairs: Sequence[WordPair],
        *,
        token_log_probs: bool = False,
        unknown_count: bool = False,
        attention: bool = False,
    ) -> PairScores:
        """See `PairScorer.score_pairs`: one call to the server, whatever is asked for.

        Raises:
            ServerError: when the call fails.
            ValueError: for attention, which a served model does not return with scores.
        """
        if attention:
            raise ValueError("found attention=True with a served model, expected False")
        if not pairs:
            return PairScores(np.zeros(0), [] if token_log_probs else None, [] if unknown_count else None)
        sources, targets = zip(*pairs, strict=True)
        inputs = {"source": self._strings(sources), "target": self._strings(targets)}
        signature = "score_tokens" if token_log_probs else "score"
        names = ["token_log_probs", "token_count"] if token_log_probs else ["log_prob"]
        names += ["unknown_count"] if unknown_count else []
        outputs = self._retries(self._predict, signature, inputs, names)
        for name in names:
            count = len(outputs.get(name, ()))
            if count != len(pairs):
                raise ServerError("INTERNAL", f"{count} values of {name} for {len(pairs)} pairs")
        counts = [int(count) for count in outputs["unknown_count"]] if unknown_count else None
        if not token_log_probs:
            return PairScores(_finite("log_prob", outputs), None, counts)
        rows = zip(_finite("token_log_probs", outputs), outputs["token_count"], strict=True)
        tokens = [row[:count] for row, count in rows]
        return PairScores(np.array([row.sum() for row in tokens]), tokens, counts)

    def _predict(self, signature, inputs, outputs):
        """One call; the refusal of a request of somebody else's, merged with this one, is UNAVAILABLE."""
        try:
            return self._server.predict(signature, inputs, outputs)
        except ServerError as error:
            if self._is_of_others(error, inputs):
                raise ServerError("UNAVAILABLE", f"merged with a request that it refused: {error.message}") from error
            raise

    def _is_of_others(self, error, inputs):
        if re.search("have different shapes|have different data types", error.message):
            return True  # this one's are strings in a row
        if error.code != "INVALID_ARGUMENT":
            return False
        # What a server says of a pair is about one of these only if one of these is so.
        if size := re.search(r"found a (source|target) of (\d+) (tokens|bytes)", error.message):
            side, number, unit = size.groups()
            if unit == "tokens" and self._raw:
                return False  # the tokens are the server's
            sizes = {len(string if unit == "bytes" else re.findall(rb"[^ \t]+", string)) for string in inputs[side]}
            return int(number) not in sizes
        if "not UTF-8" in error.message:
            return all(map(_is_utf8, (string for strings in inputs.values() for string in strings)))
        return bool(re.search("of shape|sources and targets", error.message))

    def _strings(self, phrases):
        if self._raw:
            # A byte that the file's encoding does not have is "?" to the tokenizer.
            return [" ".join(words).encode("utf-8", "replace") for words in phrases]
        return [escape(" ".join(words)).encode("utf-8", "surrogateescape") for words in phrases]


def _is_utf8(string):
    try:
        string.decode()
    except UnicodeDecodeError:
        return False
    return True


def _finite(name: str, outputs: dict[str, Any]) -> np.ndarray:
    """An output as float64 array; raises ServerError unless its numbers are finite."""
    values = np.asarray(outputs[name], np.float32).astype(np.float64)
    if not np.isfinite(values).all():
        raise ServerError("INTERNAL", f"a {name} that is not a number")
    return values


Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class ServedScoreSummary(FileSummary):
    """What `score_file_with_server` did.

    Attributes:
        lines: int. Lines written.
        seconds: float.
        output: the file.
        malformed: int. Lines among them that were malformed, and written with a neutral score.
        refused: int. Lines among them that the server refused, and that were written with a neutral score.
    """

    malformed: int = 0
    refused: int = 0


def score_file_with_server(
    server: str,
    input: Path,
    output: Path,
    format: str = "phrase_table",
    *,
    model_name: str = "encdec",
    version: int | None = None,
    label: str | None = None,
    unknown_count: bool = False,
    token_scores: bool = False,
    encoding: str | None = None,
    on_error: str = "stop",
    batch_size: int = 64,
    in_flight: int = IN_FLIGHT,
    deadline: float = DEADLINE,
    patience: float = PATIENCE,
    progress: Callable[[InputLines], Progress] = Progress,
) -> ServedScoreSummary:
    """Writes a phrase table or a list of pairs again, with scores from TensorFlow Serving, as `score_file` does.

    One version of the model scores all of the file, though its label be moved meanwhile. Of lines that the server
    refuses together the ones at fault are found. Neither TensorFlow nor Keras is imported.

    Args:
        server: str. Where TensorFlow Serving listens: host:port for gRPC; for REST a URL, such as
            "http://localhost:8501".
        input: the file, plain or gzipped.
        output: file to write; gzipped if its name ends in .gz. It appears when it is complete.
        format: str. Name of a registered format whose lines can be written again. Defaults to "phrase_table".
        model_name: str. What the server calls the model. Defaults to "encdec".
        version: int. Version of the model. Defaults to `None`: the server's choice, the latest.
        label: str. Label of the version, such as "stable", instead. Optional.
        unknown_count: bool. Whether to add the number of target words outside the shortlist. Defaults to `False`.
        token_scores: bool. Whether to add a column with ln p of each target token. Defaults to `False`.
        encoding: str. Encoding of the input. Defaults to `None`: UTF-8, and other bytes are an error.
        on_error: str. A line that is malformed, or that the server refuses, raises ("stop"), or is written with a
            neutral score and counted ("keep"). Defaults to "stop".
        batch_size: int. Pairs a request. Defaults to `64`.
        in_flight: int. Requests side by side. Defaults to `16`.
        deadline: float. Seconds that a call may take. Defaults to `30.0`.
        patience: float. Seconds for which a call that finds the server unavailable is repeated, with growing pauses.
            Defaults to `60.0`.
        progress: callable of the InputLines that are read, which gives a Progress. Defaults to `Progress`, which shows
            nothing.

    Returns:
        ServedScoreSummary.

    Raises:
        ValueError: for arguments that contradict one another, and for what is no address.
        InputError: when the input or output cannot be used, or the server does not score.
        ImportError: when the protocol's libraries are not installed.
    """
    known, retries = pair_format(format), Retries(patience)
    check_distinct_files(input, output)
    options = ScoringOptions(
        format=format, unknown_count=unknown_count, token_scores=token_scores, max_tokens=None, on_error=on_error
    )
    score_columns(known, options)  # before the server is called
    model = ModelName(model_name, version, label)
    with contextlib.ExitStack() as stack:
        asked = stack.enter_context(contextlib.closing(connect(server, model, deadline, in_flight)))
        try:
            pinned = labelled_version(asked, retries)
            scoring = stack.enter_context(contextlib.closing(connect(server, pinned, deadline, in_flight)))
            reader = stack.enter_context(known.open_reader(input, None, encoding, on_error))
            file = stack.enter_context(open_output(output))
            scorer = RecordScorer(known, [ServedScorer(scoring, retries)], options)
            lines = ServedLines(scorer, scoring, input, on_error == "keep")
            numbered = _numbered(windows(reader, batch_size))
            written = write_scored_lines(lines, numbered, reader.lines, [file], in_flight, progress)
        except ServerError as error:
            raise error.report(asked) from error
    return ServedScoreSummary(written.count, written.seconds, output, reader.malformed, lines.refused)


def _numbered(windows: Iterable[list[Any]]) -> Iterator[tuple[int, list[Any]]]:
    """Each window with the number of its first line."""
    line = 1
    for records in windows:
        yield line, records
        line += len(records)
