"""encdec-extract: makes a Moses phrase table from parallel text: aligns words, extracts phrase pairs, scores them."""

import sys

from absl import flags

from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.flags import define_text_flags, define_tokenization_flags, text_arguments, tokenization


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-extract`."""
    from keras_encdec.data.alignment import ALIGNERS, SYMMETRIZATIONS
    from keras_encdec.smt.extraction.count_smoothing import SMOOTHINGS

    define = {"flag_values": flag_values}
    define_text_flags(flag_values)
    flags.DEFINE_string(
        "output",
        None,
        "Phrase table to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard "
        "output. Temporary files for sorting, in a hidden folder beside it, take several times its space.",
        **define,
    )
    flags.DEFINE_string(
        "alignment",
        None,
        "Word alignment of the pairs, lines of links such as 0-0 1-2, source-target in the order of the files. "
        "Default: the pairs are aligned by sil-thot.",
        **define,
    )
    flags.DEFINE_enum(
        "aligner",
        "fast_align",
        list(ALIGNERS),
        "Models that align: fast_align; hmm, after IBM model 1; ibm4, after these and IBM model 3; eflomal.",
        **define,
    )
    flags.DEFINE_enum(
        "symmetrization",
        "grow_diag_final_and",
        list(SYMMETRIZATIONS),
        "How the alignments of both directions are joined.",
        **define,
    )
    flags.DEFINE_integer("max_phrase_length", 7, "Most words in a phrase, on either side.", lower_bound=1, **define)
    flags.DEFINE_integer(
        "max_sentence_length",
        100,
        "Most words in a sentence; a longer one is like a malformed line.",
        lower_bound=1,
        **define,
    )
    flags.DEFINE_enum(
        "smoothing", "none", list(SMOOTHINGS), "Smoothing of the phrase probabilities (Foster et al., 2006).", **define
    )
    define_tokenization_flags(flag_values)
    flags.DEFINE_string(
        "encoding", None, "Encoding of text and output. Default: UTF-8, and other bytes are an error.", **define
    )
    flags.DEFINE_enum(
        "on_error",
        "stop",
        ["stop", "keep"],
        "A malformed, empty or too long line stops the command, or (keep) its pair is left out and counted.",
        **define,
    )
    flags.DEFINE_integer(
        "processes",
        None,
        "Processes that share the work. Default: as many as there are processors.",
        lower_bound=1,
        **define,
    )


def main(flag_values: flags.FlagValues) -> None:
    """Makes a phrase table as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.extraction.extract import extract_phrase_table

    text, tokenized = text_arguments(flag_values), tokenization(flag_values)
    for name in ("aligner", "symmetrization"):
        if flag_values.alignment and flag_values[name].present:
            raise UsageError(f"found --{name} with --alignment, which is taken as it is.")
    names = (
        "alignment",
        "aligner",
        "symmetrization",
        "max_phrase_length",
        "max_sentence_length",
        "smoothing",
        "encoding",
        "on_error",
    )
    summary = extract_phrase_table(
        output=flag_values.output,
        tokenization=tokenized,
        number_of_processes=flag_values.processes,
        progress=ReadingProgress,
        **text,
        **{name: flag_values[name].value for name in names},
    )
    print(summary, file=sys.stderr)


COMMAND = Command(
    "encdec-extract", define_flags, main, required=("output",), flag_names={"number_of_processes": "processes"}
)

if __name__ == "__main__":
    COMMAND.run()
