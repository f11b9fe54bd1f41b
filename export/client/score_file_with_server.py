"""Adds scores from TensorFlow Serving to the lines of a file."""

import dataclasses
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from keras_encdec.export.client.connection import ClientOptions, connected_to_version
from keras_encdec.export.client.model_server import Server, ServerError
from keras_encdec.export.client.served_scorer import ServedScorer
from keras_encdec.formats import FilePath, InputLines, Record, open_output, pair_format
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.progress import FileSummary, Progress, counted
from keras_encdec.runtime.progress_state import count_errors
from keras_encdec.runtime.shards import windows
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
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
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
            count_errors(1, str(report))
        return self._scorer([record._replace(problem=str(report))])[0]
