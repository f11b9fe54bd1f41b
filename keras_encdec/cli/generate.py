"""encdec-generate: writes target phrases or sentences for source text: samples, or what a search finds."""

import sys

from absl import flags

from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.configuration_flags import configuration_from_flags, define_configuration_flags
from keras_encdec.cli.flags import path_flag
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.samplers import registered_samplers

# Options and arguments whose flags have other names.
FLAG_NAMES = {
    "num_beams": "beam_size",
    "num_best": "nbest",
    "model_dirs": "model_dir",
    "weights": "model_weight",
    "most": "top",
}
# Of distinct samples, that many are written.
TOP = 5


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-generate`: its own, and those of the samplers' options."""
    samplers = {name: entry.sampler_class for name, entry in registered_samplers().items()}
    define = {"flag_values": flag_values}
    flags.DEFINE_multi_string(
        "model_dir",
        None,
        "Directory of a model; given several times, an ensemble of models with the same vocabularies.",
        **define,
    )
    flags.DEFINE_multi_float(
        "model_weight",
        None,
        "Weight of each model of an ensemble, as often as --model_dir. Default: equal ones.",
        **define,
    )
    flags.DEFINE_enum(
        "average",
        None,
        ["arithmetic", "geometric"],
        "How an ensemble's probabilities of a word are averaged. Default: arithmetic.",
        **define,
    )
    flags.DEFINE_string(
        "input",
        None,
        "Source text, a phrase or sentence a line, plain or gzipped, read as the training text was; - is the standard input. None for a language model.",
        **define,
    )
    flags.DEFINE_string(
        "output",
        "-",
        "File to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard output.",
        **define,
    )
    flags.DEFINE_enum(
        "mode",
        "beam",
        list(samplers),
        "Search with a beam, take the most probable word each time, or draw samples.",
        **define,
    )
    flags.DEFINE_enum(
        "format",
        "text",
        ["text", "tsv", "moses_nbest"],
        "The best target a line; or lines of source (if any), target, ln p and (samples) count; or a Moses n-best list.",
        **define,
    )
    flags.DEFINE_integer(
        "top",
        None,
        f"Number of distinct samples to write, the most probable first. Default: {TOP}.",
        lower_bound=1,
        **define,
    )
    flags.DEFINE_float(
        "max_length_factor",
        None,
        "Maximum target length per source word; at least 10 words are always allowed. Default: 1.5.",
        lower_bound=0.0,
        **define,
    )
    flags.DEFINE_integer(
        "max_length",
        None,
        "Maximum target length in words, whatever the source. Default: --max_length_factor; 50 for a language model.",
        lower_bound=0,
        **define,
    )
    flags.DEFINE_bool(
        "escape",
        False,
        "Write targets with Moses's escapes, such as &apos;, as its data have them. An n-best list always has them.",
        **define,
    )
    flags.DEFINE_string("feature_name", None, "Name of ln p in a Moses n-best list. Default: RNN0.", **define)
    flags.DEFINE_string(
        "encoding",
        None,
        "Encoding of input, output and --dictionary. Default: UTF-8, and other bytes are an error.",
        **define,
    )
    flags.DEFINE_flag(
        path_flag(
            "replace_unknown",
            "Replace each unknown word by the translation of the source word it attends to, or that its position word names; --replace_unknown=FILE gives the --dictionary, too.",
        ),
        **define,
    )
    flags.DEFINE_string(
        "dictionary",
        None,
        "With --replace_unknown: lines of a source word, a tab and its translation. Other source words are copied.",
        **define,
    )
    flags.DEFINE_enum(
        "join_subwords",
        None,
        ["bpe", "sentencepiece"],
        "Join subwords into words: byte-pair encoding (@@) or SentencePiece (\u2581).",
        **define,
    )
    flags.DEFINE_string(
        "alignments",
        None,
        "File to write what each target attends to, a line for each target that is written. It needs a model with attention.",
        **define,
    )
    flags.DEFINE_enum(
        "alignment_format",
        None,
        ["links", "weights"],
        "With --alignments: the source word that each target word attends to most, as in 0-0 2-1; or all weights, as JSON. Default: links.",
        **define,
    )
    define_configuration_flags(flag_values, samplers, "search and sampling", FLAG_NAMES)


def main(flag_values: flags.FlagValues) -> None:
    """Generates as the flags say."""
    sampler = _sampler(flag_values)

    import keras_encdec.backend.startup  # noqa: F401
    from keras_encdec.backend.memory import keep_freed_memory
    from keras_encdec.decoding.generate_file import generate_file
    from keras_encdec.runtime.progress import ReadingProgress

    keep_freed_memory()
    most = flag_values.top
    if most is None and sampler.needs_draws:
        most = 1 if flag_values.format == "text" else TOP
    replacement = {"replace_unknown": flag_values.replace_unknown, "dictionary": flag_values.dictionary}
    if isinstance(flag_values.replace_unknown, str):
        if flag_values.dictionary:
            raise UsageError("found two dictionaries, of --replace_unknown and --dictionary, expected one.")
        replacement = {"replace_unknown": True, "dictionary": flag_values.replace_unknown}
    summary = generate_file(
        flag_values.model_dir,
        flag_values.input,
        flag_values.output,
        sampler,
        flag_values.format,
        weights=flag_values.model_weight,
        most=most,
        progress=ReadingProgress,
        **replacement,
        **{name: flag_values[name].value for name in _ARGUMENTS},
    )
    if flag_values.input:
        print(summary, file=sys.stderr)


def _sampler(flag_values: flags.FlagValues) -> Sampler:
    """The sampler that the flags ask for; flags of other samplers are wrong use."""
    samplers = {name: entry.sampler_class for name, entry in registered_samplers().items()}
    chosen = samplers[flag_values.mode]
    known = {name: _flags(sampler) for name, sampler in samplers.items()}
    for flag in dict.fromkeys(flag for names in known.values() for flag in names):
        if flag_values[flag].value is not None and flag not in known[flag_values.mode]:
            expected = " or ".join(f"--mode={name}" for name in known if flag in known[name])
            raise UsageError(f"found --{flag} with --mode={flag_values.mode}, expected it with {expected}.")
    for flag in ("nbest", "top"):
        if flag_values.format == "text" and (flag_values[flag].value or 1) > 1:
            raise UsageError(f"found --{flag} with --format=text, which writes one a line; give --format=tsv.")
    return configuration_from_flags(chosen, flag_values, flag_names=FLAG_NAMES)


def _flags(sampler: type[Sampler]) -> list[str]:
    """Names of the flags that a sampler takes."""
    options = [FLAG_NAMES.get(option.name, option.name) for option in sampler.hyperparameters()]
    return options + ["top"] * sampler.needs_draws


_ARGUMENTS = (
    "average",
    "max_length_factor",
    "max_length",
    "escape",
    "feature_name",
    "encoding",
    "join_subwords",
    "alignments",
    "alignment_format",
)
COMMAND = Command("encdec-generate", define_flags, main, required=("model_dir",), flag_names=FLAG_NAMES)

if __name__ == "__main__":
    COMMAND.run()
