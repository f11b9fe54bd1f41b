"""encdec-client: writes a phrase table or a list of pairs again, with scores from TensorFlow Serving."""

import sys

from absl import flags

from keras_encdec.cli.command import Command, UsageError
from keras_encdec.export.client.connection import DEADLINE, IN_FLIGHT
from keras_encdec.export.versions import LARGEST
from keras_encdec.formats import ColumnKind, format_names
from keras_encdec.runtime.progress import ReadingProgress

# What --health and --metadata have no use for.
SCORING = (
    "input",
    "output",
    "format",
    "unknown_count",
    "token_scores",
    "encoding",
    "on_error",
    "batch_size",
    "in_flight",
)


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of encdec-client."""
    own = {"flag_values": flag_values}
    flags.DEFINE_string(
        "server",
        "localhost:8500",
        "Where TensorFlow Serving listens: host:port for gRPC; for REST a URL, such as http://localhost:8501.",
        **own,
    )
    flags.DEFINE_string("model_name", "encdec", "Name of the model on the server.", **own)
    flags.DEFINE_integer(
        "version", None, "Version of the model. Default: the server's choice, the latest.", 1, LARGEST, **own
    )
    flags.DEFINE_string("label", None, "Label of the version, such as stable.", **own)
    flags.DEFINE_bool(
        "health",
        False,
        "Print the model's versions and their states, and succeed if the one asked for is AVAILABLE; without --version "
        "and --label, if any is.",
        **own,
    )
    flags.DEFINE_bool("metadata", False, "Print the model's signatures, their inputs and outputs.", **own)
    flags.DEFINE_string("input", None, "Phrase table or TSV file, plain or gzipped.", **own)
    flags.DEFINE_string(
        "output", None, "File to write; gzipped if its name ends in .gz. It appears when it is complete.", **own
    )
    flags.DEFINE_enum(
        "format",
        "phrase_table",
        format_names(ColumnKind.LOG_PROB, has_source_file=False),
        "A phrase table gets probabilities, a TSV file ln p in new columns.",
        **own,
    )
    flags.DEFINE_bool(
        "unknown_count",
        False,
        "Add the number of target words outside the shortlist: n is written as e^n in a phrase table, as n in TSV.",
        **own,
    )
    flags.DEFINE_bool(
        "token_scores", False, "TSV: add a column with ln p of each target token, the end of sequence last.", **own
    )
    flags.DEFINE_string("encoding", None, "Encoding of the input. Default: UTF-8, and other bytes are an error.", **own)
    flags.DEFINE_enum(
        "on_error",
        "stop",
        ["stop", "keep"],
        "A line that is malformed or that the server refuses stops the command, or (keep) is written all the same, "
        "with a neutral score, and counted.",
        **own,
    )
    flags.DEFINE_integer("batch_size", 64, "Pairs per request.", 1, **own)
    flags.DEFINE_integer("in_flight", IN_FLIGHT, "Concurrent requests.", 1, **own)
    flags.DEFINE_float("deadline", DEADLINE, "Seconds that a call may take.", 1e-3, **own)
    flags.DEFINE_float(
        "patience",
        None,
        "Seconds for which a call that finds the server unavailable is repeated, with growing pauses. Default: 60; "
        "with --health 0.",
        0.0,
        **own,
    )


def main(flag_values: flags.FlagValues) -> None:
    """Scores, or asks about the model, as the flags say."""
    _check_flags(flag_values)
    from keras_encdec.export import score_file_with_server, server_health, server_metadata

    names = ("server", "model_name", "version", "label", "deadline")
    arguments = {name: flag_values[name].value for name in names}
    if flag_values.patience is not None:
        arguments["patience"] = flag_values.patience
    if flag_values.health:
        status = server_health(**arguments)
        print(status, flush=True)
        status.require_available()
    elif flag_values.metadata:
        print(server_metadata(**arguments))
    else:
        arguments |= {name: flag_values[name].value for name in SCORING}
        summary = score_file_with_server(**arguments, progress=ReadingProgress)
        print(summary, file=sys.stderr)
        if summary.malformed:
            print(f"{summary.malformed:,} malformed lines were written with a neutral score.", file=sys.stderr)
        if summary.refused:
            refused = f"{summary.refused:,} lines that the server refused"
            print(f"{refused} were written with a neutral score.", file=sys.stderr)


def _check_flags(flag_values):
    asked = [f"--{name}" for name in ("health", "metadata") if flag_values[name].value]
    if len(asked) > 1:
        raise UsageError("found --health and --metadata, expected one of them.")
    for name in SCORING:
        if asked and flag_values[name].present:
            raise UsageError(f"found --{name} with {asked[0]}, which scores nothing.")
        if not asked and name in ("input", "output") and not flag_values[name].value:
            raise UsageError(f"found no --{name}, expected one to score, or --health or --metadata.")


COMMAND = Command("encdec-client", define_flags, main)

if __name__ == "__main__":
    COMMAND.run()
