"""encdec-client: writes a phrase table or a list of pairs again, with scores from TensorFlow Serving."""

import contextlib
import dataclasses
import re
import sys

from absl import app, flags

from keras_encdec.cli.command import run_command
from keras_encdec.cli.flag_checks import check_distinct_files
from keras_encdec.cli.scored_file import summary, windows, write_rows
from keras_encdec.cli.scored_rows import PhraseTableRows, TsvRows
from keras_encdec.errors import InputError
from keras_encdec.export.descriptions import describe_signatures, describe_status
from keras_encdec.export.model_name import ModelName
from keras_encdec.export.retries import Retries
from keras_encdec.export.served_rows import ServedRows
from keras_encdec.export.served_scorer import ServedScorer
from keras_encdec.export.server_error import ServerError
from keras_encdec.formats import PhraseTableReader, TsvReader, open_output

flags.DEFINE_string(
    "server", "localhost:8500",
    "Where TensorFlow Serving listens: host:port for gRPC; for REST a URL, such as http://localhost:8501.",
)  # fmt: skip
flags.DEFINE_string("model_name", "encdec", "Name of the model on the server.")
flags.DEFINE_integer("version", None, "Version of the model. Default: the server's choice, the latest.", 1, 2**63 - 1)
flags.DEFINE_string("label", None, "Label of the version, such as stable.")
flags.DEFINE_bool(
    "health", False,
    "Print the model's versions and their states, and succeed if the one asked for is AVAILABLE; without --version "
    "and --label, if any is.",
)  # fmt: skip
flags.DEFINE_bool("metadata", False, "Print the model's signatures, their inputs and outputs.")
flags.DEFINE_string("input", None, "Phrase table or TSV file, plain or gzipped.")
flags.DEFINE_string("output", None, "File to write; gzipped if its name ends in .gz. It appears when it is complete.")
flags.DEFINE_enum(
    "format", "phrase_table", ["phrase_table", "tsv"],
    "A phrase table gets probabilities, a TSV file ln p in new columns.",
)  # fmt: skip
flags.DEFINE_bool(
    "unknown_count", False,
    "Add the number of target words outside the shortlist: e to its power in a phrase table, itself in TSV.",
)
flags.DEFINE_bool(
    "token_scores", False, "TSV: add a column with ln p of each target token, the end of sequence last."
)
flags.DEFINE_string("encoding", None, "Encoding of the input. Default: UTF-8, and other bytes are an error.")
flags.DEFINE_enum(
    "on_error", "stop", ["stop", "keep"],
    "A line that is malformed or that the server refuses stops the command, or passes with a neutral score and is "
    "counted.",
)  # fmt: skip
flags.DEFINE_integer("batch_size", 64, "Pairs a request.", lower_bound=1)
flags.DEFINE_integer("in_flight", 16, "Requests side by side.", lower_bound=1)
flags.DEFINE_float("deadline", 30.0, "Seconds that a call may take.", lower_bound=1e-3)
flags.DEFINE_float(
    "patience", None,
    "Seconds for which a call that finds the server unavailable is repeated, with growing pauses. Default: 60; with "
    "--health 0.",
    lower_bound=0.0,
)  # fmt: skip

FLAGS = flags.FLAGS
PATIENCE = 60.0
# What --health and --metadata have no use for.
SCORING = (
    "input", "output", "format", "unknown_count", "token_scores", "encoding", "on_error", "batch_size", "in_flight",
)  # fmt: skip


def main(arguments):
    """Scores, or asks about the model, as the flags say."""
    _check_flags()
    patience = FLAGS.patience
    if patience is None:
        patience = 0.0 if FLAGS.health else PATIENCE
    model = ModelName(FLAGS.model_name, FLAGS.version, FLAGS.label)
    with contextlib.closing(_server(model)) as server:
        retries = Retries(patience)
        try:
            if FLAGS.health:
                _show_health(server, retries)
            elif FLAGS.metadata:
                print(describe_signatures(retries(server.metadata)[1]))
            else:
                with contextlib.closing(_server(_one_version(server, retries))) as server:
                    _score(server, retries)
        except ServerError as error:
            raise error.report(server) from error


def _server(model):
    # One of them is imported, so that the other's libraries need not be installed.
    if _is_url():
        from keras_encdec.export.rest_server import RestServer

        return RestServer(FLAGS.server, model, FLAGS.deadline, FLAGS.in_flight)
    from keras_encdec.export.grpc_server import GrpcServer

    return GrpcServer(FLAGS.server, model, FLAGS.deadline)


def _show_health(server, retries):
    if server.model.label is not None:
        with contextlib.closing(_server(_one_version(server, retries))) as labelled:
            versions = retries(labelled.status)
    else:
        versions = retries(server.status)
    print(describe_status(versions), flush=True)
    if not any(version["state"] == "AVAILABLE" for version in versions):
        found = f"found no version AVAILABLE of the {server.model} on the server at {server.address}"
        raise InputError(found, "", "wait until it is loaded, or see the server's log")


def _one_version(server, retries):
    """The version that is meant now: all of a file is scored by it, although a label be moved meanwhile."""
    # A server says which versions there are whatever label it is asked for: only what it serves tells.
    version, _ = retries(server.metadata)
    return dataclasses.replace(server.model, version=version, label=None)


def _score(server, retries):
    table = FLAGS.format == "phrase_table"
    with (PhraseTableReader if table else TsvReader)(FLAGS.input, FLAGS.encoding, FLAGS.on_error) as reader:
        with open_output(FLAGS.output) as output:
            scorers, unknown = [ServedScorer(server, retries)], FLAGS.unknown_count
            rows = PhraseTableRows(scorers, unknown) if table else TsvRows(scorers, unknown, FLAGS.token_scores)
            rows = ServedRows(rows, server, FLAGS.input, FLAGS.on_error == "keep")
            batches = _numbered(windows(reader, FLAGS.batch_size))
            progress = write_rows(rows, batches, reader.lines, output, FLAGS.in_flight)
    print(summary(progress, FLAGS.output), file=sys.stderr)
    if reader.malformed:
        print(f"{reader.malformed:,} malformed lines were passed through unscored.", file=sys.stderr)
    if rows.refused:
        print(f"{rows.refused:,} lines that the server refused were passed through unscored.", file=sys.stderr)


def _numbered(windows):
    line = 1
    for records in windows:
        yield line, records
        line += len(records)


def _check_flags():
    asked = [f"--{name}" for name in ("health", "metadata") if FLAGS[name].value]
    if len(asked) > 1:
        raise app.UsageError("found --health and --metadata, expected one of them.")
    for name in SCORING:
        if asked and FLAGS[name].present:
            raise app.UsageError(f"found --{name} with {asked[0]}, which scores nothing.")
        if not asked and name in ("input", "output") and not FLAGS[name].value:
            raise app.UsageError(f"found no --{name}, expected one to score, or --health or --metadata.")
    if FLAGS.version is not None and FLAGS.label is not None:
        raise app.UsageError("found --version and --label, expected one of them.")
    if FLAGS.format != "tsv" and FLAGS.token_scores:
        raise app.UsageError(f"found --token_scores with --format={FLAGS.format}, expected it with --format=tsv.")
    check_distinct_files(FLAGS.input, FLAGS.output)
    address = re.fullmatch(r"(?:https?://)?[^/]+?(?::(\d+))?/?", FLAGS.server)
    port = address and address[1]
    if not FLAGS.server.startswith("unix:") and (not address or (not port and not _is_url()) or int(port or 1) > 65535):
        raise app.UsageError(f"found --server={FLAGS.server}, expected host:port, or http://host:port for REST.")


def _is_url():
    return FLAGS.server.startswith(("http://", "https://"))


def run():
    """Entry point of `encdec-client`."""
    run_command(main)


if __name__ == "__main__":
    run()
