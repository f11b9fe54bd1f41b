"""Lines with scores from a server, and what is done about those that it refuses."""

import os
import random
import threading
import time
from typing import Any

from keras_encdec.export.server_connection import Server
from keras_encdec.export.server_error import ServerError
from keras_encdec.scoring.record_scorer import RecordScorer

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
