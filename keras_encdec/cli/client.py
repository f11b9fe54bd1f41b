"""encdec-client: adds scores from TensorFlow Serving to a phrase table or a list of pairs."""

import dataclasses
import functools

from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.export.client.connection import ClientOptions, ConnectionOptions
from keras_encdec.formats import pair_format
from keras_encdec.runtime.progress import ReadingProgress

SERVER = "localhost:8500"
_query = functools.partial(hyperparameter, group="instead of scoring")


@dataclasses.dataclass(frozen=True)
class ClientCommandOptions(ClientOptions):
    """Options of the command: those of scoring, and the queries that it can send instead."""

    health: bool = _query(
        False,
        "Print the model's versions and their states. The command succeeds if the requested version is "
        "AVAILABLE; without --version and --label, if any version is.",
    )
    metadata: bool = _query(False, "Print the model's signatures, their inputs and outputs.")
    bench: bool = _query(
        False, "Send the input's pairs for --seconds, and print requests per second and response times."
    )
    seconds: float = _query(10.0, "With --bench: seconds for which requests are sent.", above=0.0, needs="bench")

    def check(self) -> None:
        super().check()
        if len(self._queries()) > 1:
            raise ConfigurationError(f"found {' and '.join(self._queries())}, expected one of them")
        connection = {parameter.name for parameter in ConnectionOptions.hyperparameters()}
        scoring = {parameter.name for parameter in ClientOptions.hyperparameters()} - connection
        for name in self.changed():
            if name in scoring:
                self.check_is_used(name)

    def check_is_used(self, name: str) -> None:
        """Raises ConfigurationError if the requested query does not use this option or argument of scoring."""
        for query in self._queries():
            if query != "{bench}":
                raise ConfigurationError(f"found {{{name}}} with {query}, which scores nothing")
            if name in ("output", "token_scores", "unknown_count"):
                raise ConfigurationError(f"found {{{name}}} with {query}, which writes nothing")

    def _queries(self) -> list[str]:
        return [f"{{{name}}}" for name in ("health", "metadata", "bench") if getattr(self, name)]


def main(arguments: Arguments, options: ClientCommandOptions) -> None:
    """Scores, or queries the server, as the flags say."""
    scores = not (options.health or options.metadata)
    for name in ("input", "output"):
        if arguments[name] is not None:
            options.check_is_used(name)
        if scores and not arguments[name] and not (options.bench and name == "output"):
            raise ConfigurationError(f"found no {{{name}}}, expected one to score, or {{health}} or {{metadata}}")
    check_paths(inputs=[arguments["input"]], outputs=[arguments["output"]])
    if arguments["input"]:
        file_format, reading = pair_format(options.format), (options.encoding, options.on_error)
        file_format.check_beginning(arguments["input"], None, *reading)  # before the command waits for the server
    from keras_encdec.export import measure_server, score_file_with_server, server_health, server_metadata

    server = SERVER if arguments["server"] is None else arguments["server"]
    if options.health:
        status = server_health(server, options)
        print(status, flush=True)
        status.require_available()
    elif options.metadata:
        print(server_metadata(server, options))
    elif options.bench:
        print(measure_server(server, arguments["input"], options.seconds, options))
    else:
        paths = arguments["input"], arguments["output"]
        show_summary(score_file_with_server(server, *paths, options, progress=ReadingProgress))


COMMAND = task_command(
    "encdec-client",
    main,
    ClientCommandOptions,
    optional={
        "server": "Address of TensorFlow Serving: host:port for gRPC; for REST a URL, such as http://localhost:8501. "
        f"Default: {SERVER}.",
        "input": "Phrase table or TSV file, plain or gzipped.",
        "output": "File to write; gzipped if its name ends in .gz. It appears when it is complete.",
    },
    progress=True,
    example="encdec-client --server=localhost:8500 --input=phrase-table.gz --output=scored.gz",
    guide="serving",
)

if __name__ == "__main__":
    COMMAND.run()
