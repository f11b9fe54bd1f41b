"""A file written again with scores from a server."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from keras_encdec.export.model_name import ModelName
from keras_encdec.export.retries import Retries
from keras_encdec.export.served_lines import ServedLines
from keras_encdec.export.served_scorer import ServedScorer
from keras_encdec.export.server_connection import DEADLINE, IN_FLIGHT, PATIENCE, connect, labelled_version
from keras_encdec.export.server_error import ServerError
from keras_encdec.file_summary import FileSummary
from keras_encdec.formats import InputLines, open_output, pair_format
from keras_encdec.formats.files import check_distinct_files
from keras_encdec.progress import Progress
from keras_encdec.scoring.record_scorer import RecordScorer, score_columns
from keras_encdec.scoring.scored_file import windows, write_scored_lines
from keras_encdec.scoring.scoring_options import ScoringOptions

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
