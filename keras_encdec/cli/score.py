"""encdec-score: writes a phrase table, pairs of text or an n-best list again, with the model's scores."""

import sys

from absl import flags

from keras_encdec.cli.command import Command
from keras_encdec.formats import ColumnKind, format_names
from keras_encdec.formats.alignment_lines import ALIGNMENT_LINES


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-score`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_string("model_dir", None, "Directory of the model that gives p(target | source).", **define)
    flags.DEFINE_string("reverse_model_dir", None, "Directory of a model trained with --reverse, for p(source | target) as a second score.", **define)
    flags.DEFINE_string("input", None, "Phrase table, TSV file, n-best list or the targets of parallel text, plain or gzipped; - is the standard input.", **define)
    flags.DEFINE_string("output", None, "File to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard output.", **define)
    flags.DEFINE_enum("format", "phrase_table", format_names(ColumnKind.LOG_PROB), "A phrase table gets probabilities, a TSV file ln p in new columns, a Moses n-best list ln p as new features; parallel text is written as TSV.", **define)
    flags.DEFINE_string("source", None, "N-best list: the sentences that were translated, plain or gzipped; id 0 is the first line. Parallel text: the sources.", **define)
    flags.DEFINE_string("feature_name", "RNN0", "N-best list: name of the new feature; that of the second model counts up, RNN1.", **define)
    flags.DEFINE_bool("unknown_count", False, "Add the number of target words outside the shortlist: n is written as e^n in a phrase table, as n in TSV, feature Unknown0 in an n-best list.", **define)
    flags.DEFINE_bool("length", False, "Add the number of target tokens, the end of sequence among them: in the same way, feature Length0 in an n-best list.", **define)
    flags.DEFINE_bool("token_scores", False, "TSV: add a column with ln p of each target token, the end of sequence last.", **define)
    flags.DEFINE_string("alignments", None, "File to write what the target words of each line attend to, a line each. It needs a model with attention.", **define)
    flags.DEFINE_enum("alignment_format", None, list(ALIGNMENT_LINES), "With --alignments: the source word that each target word attends to most, as in 0-0 2-1; or all weights, as JSON. Default: links.", **define)
    flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "Dtype of the computation. bfloat16 is faster on hardware that supports it only: on a GPU, and with KERAS_BACKEND=torch on a CPU with the instructions AVX512_BF16 or AMX-BF16, or ARM's BF16.", **define)
    flags.DEFINE_bool("dry_run", False, "Do everything except run the model, and write no output: finds malformed lines, and measures the speed of reading and writing alone.", **define)
    flags.DEFINE_string("encoding", None, "Encoding of the input and of --source. Default: UTF-8, and other bytes are an error.", **define)
    flags.DEFINE_enum("on_error", "stop", ["stop", "keep"], "A malformed line stops the command, or (keep) is written all the same, with a neutral score, and counted.", **define)
    flags.DEFINE_integer("max_tokens", 10_000, "Tokens of either side, the end of sequence not counted; a longer line is written with a neutral score and counted.", lower_bound=1, **define)
    flags.DEFINE_string("moses_ini", None, "moses.ini of the input table.", **define)
    flags.DEFINE_string("moses_ini_out", None, "moses.ini to write for the output table: one more score, or as many as were added.", **define)
    flags.DEFINE_string("moses_feature", None, "Name of the table's feature in a moses.ini that has several tables.", **define)


def main(flag_values: flags.FlagValues) -> None:
    """Scores as the flags say."""
    import keras_encdec.backend.startup  # noqa: F401
    from keras_encdec.backend.memory import keep_freed_memory
    from keras_encdec.progress import ReadingProgress
    from keras_encdec.scoring.score_file import score_file

    keep_freed_memory()
    given = {name: flag_values[name].value for name in _ARGUMENTS}
    if not flag_values["feature_name"].present:
        given["feature_name"] = None  # only some formats take it
    summary = score_file(**given, progress=ReadingProgress)
    for notice in summary.notices:
        print(f"{flag_values.moses_ini_out}: {notice}", file=sys.stderr)
    print(summary, file=sys.stderr)
    for remark in summary.remarks:
        print(remark, file=sys.stderr)


_ARGUMENTS = (
    "model_dir", "input", "output", "format", "source", "reverse_model_dir", "unknown_count", "length", "token_scores",
    "feature_name", "dtype", "encoding", "on_error", "max_tokens", "moses_ini", "moses_ini_out", "moses_feature",
    "alignments", "alignment_format", "dry_run",
)  # fmt: skip
COMMAND = Command("encdec-score", define_flags, main, required=("model_dir", "input", "output"))

if __name__ == "__main__":
    COMMAND.run()
