"""encdec-select: writes the best sentence pairs of a corpus, by translation or language models."""

import sys

from absl import flags

from keras_encdec.cli.command import Command
from keras_encdec.cli.flags import define_text_flags, text_arguments

_MODELS = (
    "model_dir",
    "reverse_model_dir",
    "in_domain_source",
    "general_source",
    "in_domain_target",
    "general_target",
)


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-select`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_enum(
        "method",
        "dual",
        ["dual", "moore_lewis", "bilingual"],
        "dual: two translation models agree that the sides translate each other. moore_lewis: one side looks like the "
        "domain; bilingual: both sides do.",
        **define,
    )
    define_text_flags(flag_values, further_columns="kept")
    flags.DEFINE_string(
        "output",
        None,
        "File to write the selected lines of --target or --tsv to, unchanged and in their order; gzipped if its name "
        "ends in .gz. It appears when it is complete.",
        **define,
    )
    flags.DEFINE_string("source_output", None, "With --source: file to write the selected sources to.", **define)
    flags.DEFINE_string("model_dir", None, "dual: directory of the model that gives p(target | source).", **define)
    flags.DEFINE_string(
        "reverse_model_dir", None, "dual: directory of a model trained with --reverse, p(source | target).", **define
    )
    for side in ("source", "target"):
        flags.DEFINE_string(
            f"in_domain_{side}",
            None,
            f"moore_lewis, bilingual: language model of {side} text of the domain: a model directory, or an n-gram "
            "model as ARPA or KenLM binary file.",
            **define,
        )
        flags.DEFINE_string(
            f"general_{side}",
            None,
            f"moore_lewis, bilingual: language model of {side} text like that of the corpus.",
            **define,
        )
    flags.DEFINE_integer("top", None, "How many pairs to select.", lower_bound=1, **define)
    flags.DEFINE_float("share", None, "What share of the pairs to select, such as 0.5.", **define)
    flags.DEFINE_float("threshold", None, "Select the pairs with this score or a higher one.", **define)
    flags.DEFINE_bool("deduplicate", False, "Of pairs with the same text only the first may be selected.", **define)
    flags.DEFINE_string(
        "scores",
        None,
        "File to write all pairs to, each with its score (the higher the better) and the cross-entropies that it is "
        "made of, nats a token.",
        **define,
    )
    flags.DEFINE_integer(
        "max_tokens", 1000, "A pair with more words on a side is never selected.", lower_bound=1, **define
    )
    flags.DEFINE_float(
        "end_weight",
        1.0,
        "dual: number of tokens that the end of a sentence counts as. 1 is the published score; 4 also detects most "
        "truncated sentences.",
        **define,
    )
    flags.DEFINE_string(
        "encoding", None, "Encoding of the text. Default: UTF-8, and other bytes are an error.", **define
    )
    flags.DEFINE_enum(
        "on_error",
        "stop",
        ["stop", "keep"],
        "A malformed line stops the command, or (keep) is left out and counted.",
        **define,
    )


def main(flag_values: flags.FlagValues) -> None:
    """Selects as the flags say."""
    import keras_encdec.backend.startup  # noqa: F401
    from keras_encdec.backend.memory import keep_freed_memory
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.selection.select_pairs import select_pairs

    text = text_arguments(flag_values)
    keep_freed_memory()
    names = (
        "source_output",
        "scores",
        "top",
        "share",
        "threshold",
        "deduplicate",
        "max_tokens",
        "end_weight",
        "encoding",
        "on_error",
    )
    summary = select_pairs(
        output=flag_values.output,
        method=flag_values.method,
        models={name: flag_values[name].value for name in _MODELS if flag_values[name].value is not None},
        progress=ReadingProgress,
        **text,
        **{name: flag_values[name].value for name in names},
    )
    print(summary, file=sys.stderr)


COMMAND = Command("encdec-select", define_flags, main, required=("output",))

if __name__ == "__main__":
    COMMAND.run()
