"""Measures how many requests a server answers, and how long they take."""

import collections
import dataclasses
import itertools
import threading
import time
from collections.abc import Sequence

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.export.client.connection import ClientOptions, connected_to_version
from keras_encdec.export.client.model_server import ServerError
from keras_encdec.export.client.served_scorer import ServedScorer
from keras_encdec.formats import FilePath, pair_format
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.runtime.progress import counted
from keras_encdec.runtime.workers import threads

# Number of pairs read from the input; the requests repeat them.
MAX_SAMPLE = 10_000


@dataclasses.dataclass(frozen=True)
class LoadResult:
    """The result of `measure_server`.

    Attributes:
        seconds: float. Time between the first request and the last answer.
        latencies: tuple of the seconds that each answered request took, in ascending order.
        failures: dict from status code, such as "UNAVAILABLE", to the number of requests that failed with it.
        batch_size: int. Pairs per request.
        in_flight: int. Concurrent requests.
    """

    seconds: float
    latencies: tuple[float, ...]
    failures: dict[str, int]
    batch_size: int
    in_flight: int

    @property
    def requests_per_second(self) -> float:
        """Number of answered requests per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, percent: float) -> float:
        """Returns the time in milliseconds within which this percentage of the answers came; NaN without answers."""
        return float(np.percentile(self.latencies, percent)) * 1e3 if self.latencies else float("nan")

    def __str__(self) -> str:
        rate = self.requests_per_second
        failed = ", ".join(f"{count:,} {code}" for code, count in sorted(self.failures.items()))
        times = ", ".join(f"p{percent} {self.percentile(percent):.1f} ms" for percent in (50, 90, 99))
        return (
            f"{counted(len(self.latencies), 'requests')} of {counted(self.batch_size, 'pairs')} in "
            f"{self.seconds:.1f} s, {self.in_flight} at a time: {rate:,.1f} requests/s, "
            f"{rate * self.batch_size:,.0f} pairs/s; {times}; "
            f"failed requests: {failed or 'none'}"
        )


def measure_server(
    server: str, input: FilePath, seconds: float, options: ClientOptions | None = None, **values: object
) -> LoadResult:
    """Sends the pairs of a file to TensorFlow Serving again and again, and measures its answers.

    `options.in_flight` threads send one request of `options.batch_size` pairs after another. Before the measurement
    begins, each sends one request that does not count. A failed request is counted and not repeated.

    Args:
        server: str. Address of TensorFlow Serving, see `score_file_with_server`.
        input: the file of pairs. The first 10,000 are sent.
        seconds: float. How long requests are sent.
        options: ClientOptions. Defaults to `None`: the defaults of the command.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another, and for an invalid address.
        InputError: if the input cannot be read or has no pairs; or if a request fails before the measurement,
            unless the server refuses its pairs and `options.on_error` is "keep".
        ImportError: if the protocol's libraries are not installed.
    """
    options = ClientOptions.combined(options, values)
    file_format = pair_format(options.format)
    with file_format.open_reader(input, None, options.encoding, options.on_error) as reader:
        records = [record for record in itertools.islice(reader, MAX_SAMPLE) if not record.problem]
    if not records:
        raise InputError("found no pairs", "expected pairs to send", "", input)
    with connected_to_version(server, options, input) as pinned:
        scorer = ServedScorer(pinned, 0.0)
        pairs = scorer.all_words([(record.source, record.target) for record in records], file_format.is_factored)
        return _measured(scorer, _requests(pairs, options), seconds, options)


def _requests(pairs: Sequence[WordPair], options: ClientOptions) -> list[list[WordPair]]:
    """Splits the pairs into requests of equal size; the first pairs fill up the last request."""
    cycle = itertools.cycle(pairs)
    return [list(itertools.islice(cycle, options.batch_size)) for _ in range(-(-len(pairs) // options.batch_size))]


def _measured(
    scorer: ServedScorer, requests: Sequence[list[WordPair]], seconds: float, options: ClientOptions
) -> LoadResult:
    latencies: list[float] = []
    failures: list[str] = []
    together = threading.Barrier(options.in_flight + 1)

    def send(worker: int) -> None:
        # Each worker begins with a different request, so that the workers do not send the same pairs at the same time.
        own = itertools.islice(itertools.cycle(requests), worker * len(requests) // options.in_flight, None)
        try:
            scorer.score_pairs(next(own))
        except BaseException as error:
            refused = isinstance(error, ServerError) and error.code == "INVALID_ARGUMENT"
            if not (refused and options.on_error == "keep"):
                together.abort()
                raise
        together.wait()
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            try:
                scorer.score_pairs(next(own))
                latencies.append(time.perf_counter() - start)
            except ServerError as error:
                failures.append(error.code)

    with threads(options.in_flight) as executor:
        workers = [executor.submit(send, worker) for worker in range(options.in_flight)]
        try:
            together.wait()
        except threading.BrokenBarrierError:
            pass
        except KeyboardInterrupt:  # the workers would wait for this thread without end
            together.abort()
            raise
        start = time.perf_counter()
    errors = [error for worker in workers if (error := worker.exception())]
    for error in errors:
        if not isinstance(error, threading.BrokenBarrierError):
            raise error
    elapsed = time.perf_counter() - start
    counts = dict(collections.Counter(failures))
    return LoadResult(elapsed, tuple(sorted(latencies)), counts, options.batch_size, options.in_flight)
