"""encdec-report: what a model has learned, as a page with the paper's tables and figures."""

import sys

from absl import flags

from keras_encdec.cli.command import Command


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-report`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_string("model_dir", None, "Directory of a model of p(target | source).", **define)
    flags.DEFINE_string(
        "output",
        None,
        "Folder to write: index.html, and the folders figures and tables beside it. Files of an earlier report in it "
        "are replaced.",
        **define,
    )
    flags.DEFINE_string(
        "phrase_table", None, "Moses phrase table of the model's languages, plain or gzipped. Optional.", **define
    )
    flags.DEFINE_string(
        "source",
        None,
        "Sentences, one a line: scores and BLEU by length with --target, and the attention of a model that has it. "
        "Optional.",
        **define,
    )
    flags.DEFINE_string("target", None, "Reference translations of the sentences. Optional.", **define)
    flags.DEFINE_multi_string(
        "compare_with",
        [],
        "Another model directory, whose training is shown beside the model's; may be given often.",
        **define,
    )
    flags.DEFINE_multi_string(
        "phrase",
        [],
        "Source phrase of the table, without Moses's escapes, for the tables of best targets and samples; may be given "
        "often. Default: frequent and rare phrases of four words or more are drawn.",
        **define,
    )
    flags.DEFINE_integer(
        "phrases_per_kind", 5, "Frequent phrases, and rare ones, that are drawn.", lower_bound=1, **define
    )
    flags.DEFINE_integer("samples", 50, "Targets to draw from the model for each phrase.", lower_bound=1, **define)
    flags.DEFINE_integer(
        "pairs",
        100_000,
        "Pairs of the table to score, at most; of a larger table that many are drawn.",
        lower_bound=1,
        **define,
    )
    flags.DEFINE_integer(
        "map_words", 2000, "Most frequent source words on the map of words; 0 for no map.", lower_bound=0, **define
    )
    flags.DEFINE_integer(
        "map_phrases",
        5000,
        "Source phrases of four words or more on the map of phrases, which are drawn; 0 for no map.",
        lower_bound=0,
        **define,
    )
    flags.DEFINE_integer("seed", 0, "Random seed for all sampling.", lower_bound=0, **define)
    flags.DEFINE_string("encoding", None, "Encoding of the files. Default: UTF-8.", **define)


def main(flag_values: flags.FlagValues) -> None:
    """Writes a report as the flags say."""
    import keras_encdec.backend.startup  # noqa: F401
    from keras_encdec.analysis.report import report
    from keras_encdec.analysis.report_options import ReportOptions

    names = "phrases_per_kind", "samples", "pairs", "map_words", "map_phrases", "seed", "encoding"
    given = {name: flag_values[name].value for name in names}
    summary = report(
        flag_values.model_dir,
        flag_values.output,
        flag_values.phrase_table,
        source=flag_values.source,
        target=flag_values.target,
        compare_with=flag_values.compare_with,
        options=ReportOptions(phrases=tuple(flag_values.phrase), **given),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    for notice in summary.notices:
        print(f"warning: {notice}", file=sys.stderr)
    print(summary, file=sys.stderr)


COMMAND = Command(
    "encdec-report", define_flags, main, required=("model_dir", "output"), flag_names={"phrases": "phrase"}
)

if __name__ == "__main__":
    COMMAND.run()
