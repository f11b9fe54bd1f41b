"""encdec-train: learns p(target | source) from pairs."""

import os
from collections.abc import Mapping

from absl import flags

from keras_encdec.architectures.architecture_registry import architecture, architecture_names, load_preset, preset_names
from keras_encdec.backend.startup import import_keras
from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.flags import (
    check_flags_of_choice,
    define_configuration_flags,
    define_progress_flags,
    given_flags,
)
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import check_paths, zeros_of_model
from keras_encdec.configuration import Configuration
from keras_encdec.formats import pair_format
from keras_encdec.formats.record_reader import LEFT_OUT
from keras_encdec.model_config import check_model_directory, is_packaged, model_path
from keras_encdec.runtime.files import check_folder, is_url
from keras_encdec.trained_model import TrainedModel
from keras_encdec.trainers.settings_checks import check_has_zeros, check_initial_model, check_resumed
from keras_encdec.trainers.tasks import TrainingTasks
from keras_encdec.trainers.training_config import LIMITS, TrainingConfig, check_together
from keras_encdec.trainers.training_data import TrainingData
from keras_encdec.trainers.training_files import check_model_folder, has_checkpoint, has_prepared_pairs


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of the command: its own, and those of the configurations."""
    flags.DEFINE_string("model_dir", None, "Model directory to write.", flag_values=flag_values)
    flags.DEFINE_bool(
        "resume",
        False,
        "Continue the training in --model_dir from its last checkpoint. Without a checkpoint, start a new run; if the "
        "training has already ended, say so and exit with status 0.",
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "preset",
        None,
        f"Published or recommended settings: {', '.join(preset_names())}, or the path of your own file, such as the "
        "settings.toml in a model directory; relative paths in it start from its folder. Other flags override its "
        "values.",
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "tasks",
        None,
        "TOML file of tasks that share encoders and decoders, with the data of each. It replaces the flags of training "
        "files.",
        flag_values=flag_values,
    )
    define_configuration_flags(flag_values, TrainingData, "data")
    define_configuration_flags(flag_values, TrainingConfig, "training")
    define_configuration_flags(flag_values, _model_configurations(), "model")
    define_progress_flags(flag_values)


def main(flag_values: flags.FlagValues) -> int:
    """Trains as the flags say, and returns the exit status."""
    is_prepared = flag_values.resume and has_prepared_pairs(flag_values.model_dir)  # the input is not read again
    has_begun = has_checkpoint(flag_values.model_dir, flag_values.resume)
    if flag_values.initial_model and not has_begun:
        check_model_directory(flag_values.initial_model)  # its settings are read next
    tasks = TrainingTasks.load(flag_values.tasks, check_files=not is_prepared) if flag_values.tasks else None
    config, data = configurations(flag_values, tasks)
    check_together(config, data)
    if tasks:
        tasks.check_together(config, data)

    check_folder(flag_values.model_dir)
    check_model_folder(flag_values.model_dir, flag_values.resume, tasks)
    initial_model = None if has_begun else config.initial_model  # a resumed run does not read it again
    training_inputs = *data.files.values(), data.alignment, data.source_vocabulary, data.target_vocabulary
    inputs = () if is_prepared else training_inputs
    check_paths([initial_model], [*inputs, *data.validation, data.validation_alignment])
    check_resumed(config, data, tasks, flag_values.model_dir)
    if initial_model:
        known = check_initial_model(config, data)
        _check_shortlist(flag_values.shortlist, known)
        if config.keep_pruned and (counts := zeros_of_model(known.path)):
            check_has_zeros(counts[0] > 0, known.path)
    if not has_begun:
        for *sources, path in filter(None, (data.files.values(), data.validation)):
            reading = next(iter(sources), None), data.encoding, data.on_error, LEFT_OUT
            pair_format(data.registered_format).check_beginning(path, *reading)
        if not tasks and all(flag_values[name].value is None for name in data.files):
            print(f"Training on the files that the settings name: {', '.join(data.files.values())}", flush=True)
    _tell_if_hidden(flag_values.model_dir)
    import_keras()
    from keras_encdec.trainers.train import train

    result = train(config, data, flag_values.model_dir, flag_values.resume, tasks=tasks)
    if result.signal is None:
        return 0
    say("Stopped by a signal; run the same command with --resume to continue.")
    return 128 + result.signal


def configurations(
    flag_values: flags.FlagValues, tasks: TrainingTasks | None = None
) -> tuple[TrainingConfig, TrainingData]:
    """Makes the settings of the training from the flags, and the files of the main task from the tasks, if given.

    Raises:
        UsageError: for flags of another architecture.
        ConfigurationError: for values that cannot be used.
    """
    initial_model = flag_values.initial_model
    if initial_model and not is_url(initial_model) and not model_path(initial_model).exists() and flag_values.resume:
        initial_model = flag_values.model_dir  # whose settings began as those of the initial model
    settings = None if flag_values.preset else _settings_of(initial_model)
    given_preset = flag_values.preset or settings
    preset = load_preset(given_preset) if given_preset else None
    chosen = flag_values.architecture or (preset and preset.architecture) or "encdec"
    model_class = architecture(chosen).config
    check_flags_of_choice("architecture", chosen, _model_configurations(), flag_values)
    given = {**given_flags(TrainingConfig, flag_values), "model": given_flags(model_class, flag_values)}
    data = {**(tasks.main_files if tasks else {}), **given_flags(TrainingData, flag_values)}
    if preset is None:
        return TrainingConfig(**given), TrainingData(**data)
    if settings:
        given = {**_not_inherited(given), **given}
        data = {"source_vocabulary": None, "target_vocabulary": None, **data}  # the initial model has its own
    return TrainingConfig.from_preset(preset.path, **given), TrainingData.from_preset(preset.path, **data)


def _settings_of(model: str | None) -> str | None:
    """Returns the path of an initial model's settings, which are the preset if no other is given."""
    settings = model_path(model) / "settings.toml" if model else None
    return str(settings) if settings and settings.is_file() else None


def _tell_if_hidden(model_dir: str) -> None:
    """Tells the user that a new model directory will hide the packaged model of its name."""
    if not is_url(model_dir) and is_packaged(os.path.relpath(model_dir)):
        place = "from all commands that run in this folder"
        print(f"The new directory {model_dir} will hide the packaged model of this name {place}.", flush=True)


def _check_shortlist(given: int | None, initial: TrainedModel) -> None:
    """Raises UsageError for a --shortlist other than that of the initial model, whose vocabularies are used."""
    training = initial.config.get("training")
    known = training.get("shortlist") if isinstance(training, dict) else None
    if None not in (given, known) and given != known:
        raise UsageError(
            f"found --shortlist={given} with --initial_model, whose vocabularies were made with --shortlist={known}; "
            "drop --shortlist."
        )


def _not_inherited(given: Mapping[str, object]) -> dict[str, object]:
    """Returns defaults for the settings that a run does not take over from its initial model.

    These are the settings of pruning, those that need an initial model, and the end of training if the flags give
    another one.
    """
    ends = LIMITS if any(name in given for name in LIMITS) else ()
    return {
        each.name: each.default
        for each in TrainingConfig.hyperparameters()
        if each.group == "pruning" or each.needs == "initial_model" or each.name in ends
    }


def _model_configurations() -> dict[str, type[Configuration]]:
    return {name: architecture(name).config for name in architecture_names()}


COMMAND = Command(
    "encdec-train",
    define_flags,
    main,
    required=("model_dir",),
    example="encdec-train --preset=small --phrase_table=phrase-table.gz --model_dir=model --minutes=20",
    guide="training",
)

if __name__ == "__main__":
    COMMAND.run()
