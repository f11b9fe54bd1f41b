"""encdec-generate: writes target phrases or sentences for source text, by a search or by sampling."""

from absl import flags

from keras_encdec.backend.startup import import_keras, keep_freed_memory
from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.flags import (
    check_flags_of_choice,
    configuration_from_flags,
    define_configuration_flags,
    define_progress_flags,
    given_flags,
)
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import check_paths, define_task_flag, models_of_task, show_summary
from keras_encdec.decoding.generation_options import GenerationOptions, check_together
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.sampler_registry import registered_samplers
from keras_encdec.formats import pair_format
from keras_encdec.trained_model import TrainedModel, check_ensemble

# Options and arguments with the names of their flags, if they differ.
FLAG_NAMES = {
    "num_beams": "beam_size",
    "num_best": "nbest",
    "model_dirs": "model_dir",
    "weights": "model_weight",
    "most": "top",
    "number_of_processes": "processes",
}
# Number of distinct samples written for each source, unless --top is given.
TOP = 5


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-generate`: its files, the options of the task and those of the samplers."""
    flags.DEFINE_multi_string(
        "model_dir",
        None,
        "Directory of a model, or libreoffice_en_fr, the packaged model. Give it several times for an ensemble of "
        "models with the same vocabularies.",
        flag_values=flag_values,
    )
    define_task_flag(flag_values, __name__)
    flags.DEFINE_string(
        "input",
        None,
        "Source text, one phrase or sentence per line, plain or gzipped, in the form of the training text; - means "
        "standard input. A language model takes none.",
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "output",
        "-",
        "File to write; gzipped if its name ends in .gz. It appears when it is complete. - means standard output.",
        flag_values=flag_values,
    )
    flags.DEFINE_enum(
        "mode",
        "beam",
        list(registered_samplers()),
        "Search with a beam, take the most probable word each time, or draw samples.",
        flag_values=flag_values,
    )
    flags.DEFINE_multi_float(
        "model_weight",
        None,
        "Weight of a model of an ensemble; given once for each --model_dir. Default: equal weights.",
        flag_values=flag_values,
        module_name="ensembles",
    )
    text = (
        "Replace each unknown word with the translation of the source word that it attends to, or that its position "
        "word names; --replace_unknown=FILE also gives the --dictionary."
    )
    parser, serializer = _PathOrFlagParser(), flags.ArgumentSerializer()
    flag = flags.Flag(parser, serializer, "replace_unknown", False, text, boolean=True)
    flags.DEFINE_flag(flag, flag_values, module_name="unknown words")
    own_flags = ("weights", "replace_unknown")
    define_configuration_flags(flag_values, GenerationOptions, __name__, FLAG_NAMES, own_flags)
    define_configuration_flags(flag_values, _samplers(), "search and sampling", FLAG_NAMES)
    define_progress_flags(flag_values)


def main(flag_values: flags.FlagValues) -> None:
    """Generates as the flags say."""
    sampler, options = _sampler(flag_values), _options(flag_values)
    if options.format == "text" and (flag_values.nbest or 1) > 1:
        raise UsageError("found --nbest with --format=text, which writes one target per source; give --format=tsv.")
    if sampler.needs_draws and options.most is None and options.format != "text":
        options = options.replace(most=TOP)

    check_together(options, sampler)
    options.check_model_count(len(flag_values.model_dir))
    options.outputs(flag_values.output)  # raises if both are "-"
    models = models_of_task(flag_values, flag_values.model_dir)
    check_paths(models, [flag_values.input, *options.tables.values()], [flag_values.output, options.alignments])
    trained = [TrainedModel.read(model) for model in models]
    options.check_input(flag_values.input)
    options.check_models(trained, flag_values.input)
    check_ensemble(trained)
    sampler.check_attention(any(model.has_attention for model in trained))
    if flag_values.input:
        pair_format("sentences").check_beginning(flag_values.input, encoding=options.encoding, on_error=None)
    import_keras()
    from keras_encdec.decoding.generate_file import generate_file
    from keras_encdec.runtime.progress import ReadingProgress

    keep_freed_memory()
    summary = generate_file(
        models, flag_values.input, flag_values.output, sampler, options, progress=ReadingProgress, show=say
    )
    if flag_values.input:
        show_summary(summary)


class _PathOrFlagParser(flags.ArgumentParser):
    """Parses a flag that is given without a value, `--flag` or `--noflag`, or with a path, `--flag=path`."""

    syntactic_help = "alone, or with a path"

    def parse(self, argument: bool | str) -> bool | str:
        return {"true": True, "false": False}.get(str(argument), argument)

    def flag_type(self) -> str:
        return "bool or path"


def _samplers() -> dict[str, type[Sampler]]:
    return {name: entry.sampler_class for name, entry in registered_samplers().items()}


def _sampler(flag_values: flags.FlagValues) -> Sampler:
    """Makes the sampler that the flags choose; raises UsageError for a flag of another sampler."""
    samplers, mode = _samplers(), flag_values.mode
    check_flags_of_choice("mode", mode, samplers, flag_values, FLAG_NAMES)
    if flag_values.top is not None and not samplers[mode].needs_draws:
        drawing = " or ".join(f"--mode={name}" for name, sampler in samplers.items() if sampler.needs_draws)
        raise UsageError(f"found --top with --mode={mode}, expected it with {drawing}.")
    return configuration_from_flags(samplers[mode], flag_values, flag_names=FLAG_NAMES)


def _options(flag_values: flags.FlagValues) -> GenerationOptions:
    given = given_flags(GenerationOptions, flag_values, FLAG_NAMES)
    if isinstance(given["replace_unknown"], str):
        if "dictionary" in given:
            raise UsageError("found a file in both --replace_unknown and --dictionary, expected one dictionary.")
        given |= {"replace_unknown": True, "dictionary": given["replace_unknown"]}
    return GenerationOptions.from_dict(given)


COMMAND = Command(
    "encdec-generate",
    define_flags,
    main,
    required=("model_dir",),
    flag_names=FLAG_NAMES,
    example="encdec-generate --model_dir=libreoffice_en_fr --input=test.en --output=test.fr --mode=beam --beam_size=12",
    guide="generating",
)

if __name__ == "__main__":
    COMMAND.run()
