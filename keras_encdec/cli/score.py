"""encdec-score: writes a phrase table, a list of pairs or an n-best list again, with the model's scores."""

import keras_encdec.cli.quiet_keras  # isort: skip  # noqa: F401

import contextlib
import itertools
import os
import pathlib
import re
import sys

from absl import app, flags

from keras_encdec.cli.command import run_command
from keras_encdec.cli.flag_checks import check_distinct_files, check_feature_name
from keras_encdec.cli.memory import keep_freed_memory
from keras_encdec.cli.nbest_input import fitting
from keras_encdec.cli.scored_file import summary, windows, write_rows
from keras_encdec.cli.scored_rows import NBestRows, PhraseTableRows, TsvRows
from keras_encdec.errors import InputError
from keras_encdec.formats import NBestReader, PhraseTableReader, TsvReader, open_output, read_sentences
from keras_encdec.formats.moses_ini import rewrite
from keras_encdec.scoring import DryTextScorer, ModelDirectory, TextScorer

flags.DEFINE_string("model_dir", None, "Directory of the model that gives p(target | source).")
flags.DEFINE_string("reverse_model_dir", None, "Directory of a model trained with --reverse, for p(source | target) as a second score.")
flags.DEFINE_string("input", None, "Phrase table, TSV file or n-best list, plain or gzipped.")
flags.DEFINE_string("output", None, "File to write; gzipped if its name ends in .gz. It appears when it is complete.")
flags.DEFINE_enum("format", "phrase_table", ["phrase_table", "tsv", "nbest"], "A phrase table gets probabilities, a TSV file ln p in new columns, a Moses n-best list ln p as new features.")
flags.DEFINE_string("source", None, "N-best list: the sentences that were translated, plain or gzipped; id 0 is the first line.")
flags.DEFINE_string("feature_name", "RNN0", "N-best list: name of the new feature; that of the second model counts up, RNN1.")
flags.DEFINE_bool("unknown_count", False, "Add the number of target words outside the shortlist: e to its power in a phrase table, itself in TSV, feature Unknown0 in an n-best list.")
flags.DEFINE_bool("length", False, "N-best list: add a feature Length0 with the number of target tokens, the end of sequence among them.")
flags.DEFINE_bool("token_scores", False, "TSV: add a column with ln p of each target token, the end of sequence last.")
flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "What the model computes in. bfloat16 is the faster one where the processor has it: on a GPU, and on a CPU with KERAS_BACKEND=torch.")
flags.DEFINE_bool("dry_run", False, "Do everything but run the model, and keep no output: finds malformed lines, and shows how fast the files alone pass.")
flags.DEFINE_string("encoding", None, "Encoding of the input and of --source. Default: UTF-8, and other bytes are an error.")
flags.DEFINE_enum("on_error", "stop", ["stop", "keep"], "A malformed line stops the command, or passes with a neutral score and is counted.")
flags.DEFINE_string("moses_ini", None, "moses.ini of the input table.")
flags.DEFINE_string("moses_ini_out", None, "moses.ini to write for the output table: one more score, or as many as were added.")
flags.DEFINE_string("moses_feature", None, "Name of the table's feature in a moses.ini that has several tables.")

FLAGS = flags.FLAGS
# Lines scored together: among so many, equal pairs are scored once and equal sources encoded once.
WINDOW = 1 << 15
# Windows in work at a time.
WINDOWS = 2
READERS = {"phrase_table": PhraseTableReader, "tsv": TsvReader, "nbest": NBestReader}


def main(arguments):
    """Scores as the flags say."""
    _check_flags()
    keep_freed_memory()
    with READERS[FLAGS.format](FLAGS.input, FLAGS.encoding, FLAGS.on_error) as reader:
        keep = not FLAGS.dry_run
        with open_output(FLAGS.output, keep) as output, _ini_output(keep) as ini_output:
            sources = read_sentences(FLAGS.source, FLAGS.encoding) if FLAGS.format == "nbest" else []
            read = windows(_records(reader, sources), WINDOW)
            first = next(read)
            # Whatever can be wrong with the other inputs is found before hours of scoring.
            if ini_output:
                ini_output.write(_rewritten_ini(reader.num_scores))
            # While the model scores one window, another is read and a third written.
            progress = write_rows(_rows(sources), itertools.chain([first], read), reader.lines, output, WINDOWS)
    _report(progress, reader.malformed)


def _ini_output(keep):
    return open_output(FLAGS.moses_ini_out, keep) if FLAGS.moses_ini else contextlib.nullcontext()


def _records(reader, sources):
    if FLAGS.format == "nbest":
        return fitting(reader, _feature_names(), FLAGS.source, len(sources))
    return reader


def _rows(sources):
    scorers = [_load(FLAGS.model_dir, "--model_dir", reverse=False)]
    if FLAGS.reverse_model_dir:
        scorers.append(_load(FLAGS.reverse_model_dir, "--reverse_model_dir", reverse=True))
    if FLAGS.format == "phrase_table":
        return PhraseTableRows(scorers, FLAGS.unknown_count)
    if FLAGS.format == "nbest":
        return NBestRows(scorers, sources, _feature_names(), FLAGS.unknown_count, FLAGS.length)
    return TsvRows(scorers, FLAGS.unknown_count, FLAGS.token_scores)


def _feature_names():
    """Names of the features that an n-best list gets, in their order."""
    names = [FLAGS.feature_name]
    if FLAGS.reverse_model_dir:
        stem, number = re.fullmatch(r"(.*?)(\d*)", FLAGS.feature_name).groups()
        names.append(f"{stem}{int(number or 0) + 1}")
    return names + ["Unknown0"] * FLAGS.unknown_count + ["Length0"] * FLAGS.length


def _check_flags():
    if bool(FLAGS.moses_ini) != bool(FLAGS.moses_ini_out):
        raise app.UsageError("found one of --moses_ini and --moses_ini_out, expected both.")
    if FLAGS.format != "phrase_table" and FLAGS.moses_ini:
        raise app.UsageError(f"found --moses_ini with --format={FLAGS.format}, expected it with a phrase table.")
    if FLAGS.moses_feature and not FLAGS.moses_ini:
        raise app.UsageError("found --moses_feature without --moses_ini, expected both.")
    if FLAGS.format != "tsv" and FLAGS.token_scores:
        raise app.UsageError(f"found --token_scores with --format={FLAGS.format}, expected it with --format=tsv.")
    if FLAGS.format == "nbest":
        _check_nbest_flags()
    for name in ("source", "feature_name", "length"):
        if FLAGS.format != "nbest" and FLAGS[name].present:
            raise app.UsageError(f"found --{name} with --format={FLAGS.format}, expected it with --format=nbest.")
    check_distinct_files(FLAGS.input, FLAGS.source, FLAGS.output, FLAGS.moses_ini, FLAGS.moses_ini_out)


def _check_nbest_flags():
    if not FLAGS.source:
        raise app.UsageError("found --format=nbest without --source, expected the sentences that were translated.")
    check_feature_name(FLAGS.feature_name)
    names = _feature_names()
    if len(set(names)) < len(names):
        raise app.UsageError(f"found the names {', '.join(names)} of new features, expected each once.")


def _load(path, flag, reverse):
    directory = ModelDirectory.load(path, weights=not FLAGS.dry_run)
    if directory.reverse != reverse:
        kinds = "p(source | target), trained with --reverse", "p(target | source), trained without --reverse"
        found, expected = kinds if directory.reverse else kinds[::-1]
        raise InputError(f"found a model of {found}", f"expected one of {expected}", f"check {flag}", path)
    return DryTextScorer(directory) if FLAGS.dry_run else TextScorer(directory, FLAGS.dtype)


def _rewritten_ini(table_scores):
    probabilities = 1 + bool(FLAGS.reverse_model_dir)
    # e^n is no probability: a positive weight would reward words outside the shortlist. Tuning sets it.
    weights = [None] * probabilities + [0.0] * FLAGS.unknown_count
    path = pathlib.Path(FLAGS.moses_ini)
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise InputError(f"could not be read ({error.strerror})", remedy="check --moses_ini", path=path) from None
    text, notices = rewrite(
        text, os.path.abspath(FLAGS.output), len(weights), FLAGS.moses_feature, weights, table_scores, path
    )
    for notice in notices:
        print(f"{FLAGS.moses_ini_out}: {notice}", file=sys.stderr)
    return text.encode("utf-8", "surrogateescape")


def _report(progress, malformed):
    result = "a dry run, nothing was written" if FLAGS.dry_run else FLAGS.output
    print(summary(progress, result), file=sys.stderr)
    if malformed:
        print(f"{malformed:,} malformed lines {'would be' if FLAGS.dry_run else 'were'} passed through unscored.", file=sys.stderr)


def run():
    """Entry point of `encdec-score`."""
    run_command(main, ("model_dir", "input", "output"))


if __name__ == "__main__":
    run()
