"""encdec-rerank: sorts an n-best list by the weighted sum of its features, or takes the best of each sentence."""

import sys

from absl import app, flags

from keras_encdec.cli.command import run_command
from keras_encdec.cli.flag_checks import check_distinct_files
from keras_encdec.cli.ranking import Ranking, groups
from keras_encdec.cli.scored_file import summary, write_rows
from keras_encdec.formats import FeatureWeights, InputLines, open_output, parse_weights, read_weights

flags.DEFINE_string("input", None, "N-best list with all features, plain or gzipped.")
flags.DEFINE_string("output", None, "File to write; gzipped if its name ends in .gz. It appears when it is complete.")
flags.DEFINE_enum(
    "format", "nbest", ["nbest", "text"],
    "The list sorted, with new totals, or the best hypothesis of each sentence, one a line; a sentence without "
    "hypotheses is an empty line.",
)  # fmt: skip
flags.DEFINE_string(
    "weights", None,
    'moses.ini, or a file of lines "Name= w [w ...]". Penalties that Moses keeps out of its lists, such as that of '
    "unknown words, are not part of the new totals.",
)  # fmt: skip
flags.DEFINE_multi_string(
    "weight", [], "Name=w, weight of a feature beside those of --weights or instead; may be given often."
)

FLAGS = flags.FLAGS


def main(arguments):
    """Re-ranks as the flags say."""
    _check_flags()
    weights = _weights()
    with InputLines(FLAGS.input) as lines, open_output(FLAGS.output) as output:
        ranking = Ranking(weights, FLAGS.input, best_only=FLAGS.format == "text")
        progress = write_rows(ranking, groups(lines), lines, output, side_by_side=1)
    print(summary(progress, FLAGS.output), file=sys.stderr)


def _check_flags():
    if not FLAGS.weights and not FLAGS.weight:
        raise app.UsageError("found neither --weights nor --weight, expected the weights to rank by.")
    check_distinct_files(FLAGS.input, FLAGS.output, FLAGS.weights)


def _weights():
    try:
        given = dict(parse_weights(text) for text in FLAGS.weight)
    except ValueError as error:
        raise app.UsageError(f"--weight: {error}.") from None
    weights, unlisted = read_weights(FLAGS.weights) if FLAGS.weights else ({}, set())
    return FeatureWeights(weights | given, unlisted - given.keys())


def run():
    """Entry point of `encdec-rerank`."""
    run_command(main, ("input", "output"))


if __name__ == "__main__":
    run()
