"""Compares the settings of a training run with those of the run to resume or of the initial model, without Keras."""

import contextlib
import os
import pathlib
from collections.abc import Mapping, Sequence

from keras_encdec.configuration import Configuration, ConfigurationError
from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.model_config import CONFIG
from keras_encdec.runtime.files import absolute, exists, file_checksum, is_url
from keras_encdec.runtime.settings_files import Json
from keras_encdec.trained_model import TrainedModel
from keras_encdec.trainers.tasks import TrainingTasks
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData
from keras_encdec.trainers.training_files import SETTINGS, data_before, has_checkpoint

# The first version saved these names as the architecture.
_CELLS = ("lstm", "gru", "rnn")
_VALIDATION = "validation_checksums"
# The settings of the learning rate, which may change when a run is resumed.
_LEARNING_RATE = ("learning_rate", "warmup_updates", "schedule", "halving_start", "halving_every")
# How text is read, and by which vocabularies. A resumed run must keep these, too: it reads the validation files again.
_READING = ("encoding", "tokenize", "lowercase", "source_vocabulary", "target_vocabulary")
# Hyper-parameters that may differ from those of the initial model, because they change no score.
_FREE = ("dropout", "character_dropout", "initial_scale", "initial_stddev")


def fixed_settings(config: TrainingConfig, data: TrainingData) -> dict[str, Json]:
    """Collects the settings that a resumed run must keep, except those of the model, in alphabetical order.

    They include the checksums of the validation files; `None` stands for a pipe, which can be read only once.
    """
    checksums = [
        file_checksum(path) if is_url(path) or os.path.isfile(path) else None for path in validation_files(data)
    ]
    return dict(sorted({**_fixed(config), **_fixed(data), _VALIDATION: checksums}.items()))


def check_resumed(config: TrainingConfig, data: TrainingData, tasks: TrainingTasks | None, model_dir: FilePath) -> None:
    """Checks that the settings are those of the run to resume, if there is one, without loading its checkpoint.

    Nothing is checked in a remote directory.

    Args:
        config: TrainingConfig, given now.
        data: TrainingData, given now.
        tasks: TrainingTasks that are given now; `None` for one task.
        model_dir: path or URL of the model directory.

    Raises:
        ConfigurationError: a ValueError, which names the settings that differ.
        InputError: if the configuration of the model in the directory cannot be read.
    """
    if is_url(model_dir) or not has_checkpoint(model_dir):
        return
    known = TrainedModel.read(model_dir)
    settings = known.config.get("training", {})
    if settings.get("architecture") in _CELLS:
        return  # only the checkpoint has all hyper-parameters
    check_same_tasks(tasks, settings)
    check_same_training(config, data, settings, known.config.get("model", {}))
    check_same_direction(known.reverse, data, known.path)
    check_same_reading(data, data_before(known.path))


def check_same_direction(reverse: bool, data: TrainingData, folder: pathlib.Path) -> None:
    """Checks that the direction is that of the run to resume.

    Args:
        reverse: bool. Whether the run to resume swaps the sides.
        data: TrainingData, given now.
        folder: path of the model directory, for the error.

    Raises:
        ConfigurationError: a ValueError, if it differs.
    """
    if reverse != data.reverse:
        found, expected = ("no {reverse}", "it") if reverse else ("{reverse}", "none")
        raise ConfigurationError(f"found {found}, expected {expected} as in the run to resume in %s", folder)


def check_same_reading(data: TrainingData, before: TrainingData | None) -> None:
    """Checks that text is read as it was in the run to resume.

    Args:
        data: TrainingData, given now.
        before: TrainingData of the run to resume, see `data_before`; `None` if they are unknown: nothing is checked.

    Raises:
        ConfigurationError: a ValueError, which names the settings that differ.
    """
    if before:
        requested, known = data.to_dict(), before.to_dict()
        pairs = {name: (requested[name], known[name]) for name in _READING}
        pairs["encoding"] = FileEncoding(data.encoding).codec, FileEncoding(before.encoding).codec
        different = [name for name, pair in pairs.items() if pair[0] != pair[1] and not _is_same_input(*pair)]
        if different:
            raise _differing(different, requested, known, "the run to resume")


def check_same_tasks(tasks: TrainingTasks | None, settings: Mapping[str, object]) -> None:
    """Checks that the tasks are those of the run to resume.

    Args:
        tasks: TrainingTasks that are given now; `None` for one task.
        settings: dict, see `fixed_settings`.

    Raises:
        ConfigurationError: a ValueError, which names what differs.
    """
    requested, before = (tasks.fixed() if tasks else {}), settings.get("tasks") or {}
    assert isinstance(before, dict)
    if bool(requested) != bool(before):
        found, expected = ("{tasks}", "none") if requested else ("no {tasks}", "the tasks")
        raise ConfigurationError(f"found {found}, expected {expected} as in the run to resume")
    (main, *_), (main_before, *_) = (requested or [""]), (before or [""])
    if main != main_before:
        raise ConfigurationError("found main=%s in {tasks}, expected %s as in the run to resume", main, main_before)
    for name in dict.fromkeys([*requested, *before]):
        if name not in before or name not in requested:
            found, expected = ("the", "none of this name") if name in requested else ("no", "one")
            raise ConfigurationError(
                f"found {found} task %s in {{tasks}}, expected {expected} as in the run to resume", name
            )
        for key, value in requested[name].items():
            if value != before[name].get(key):
                raise ConfigurationError(
                    f"found {key}=%s in [tasks.%s], expected %s as in the run to resume",
                    value,
                    name,
                    before[name].get(key),
                )
    if [*requested] != [*before]:  # in another order, other tasks would be drawn
        order, order_before = ", ".join(requested), ", ".join(before)
        raise ConfigurationError(
            "found the tasks in the order %s in {tasks}, expected %s as in the run to resume", order, order_before
        )


def check_same_training(
    config: TrainingConfig, data: TrainingData, settings: Mapping[str, Json], model_config: Mapping[str, object]
) -> None:
    """Checks that the settings are those of the run to resume.

    Args:
        config: TrainingConfig, given now.
        data: TrainingData, given now.
        settings: dict, the `fixed_settings` of the run to resume. A setting that is missing, because the version that
            saved them did not have it, has its default.
        model_config: dict, `get_config()` of the model to resume.

    Raises:
        ConfigurationError: a ValueError, which names the settings that differ.
    """
    requested = fixed_settings(config, data)
    _check_validation_files(requested.pop(_VALIDATION), settings.get(_VALIDATION), data)
    before = {name: _default(name, config, data) for name in requested}
    before.update((name, value) for name, value in settings.items() if name in before)
    if before["architecture"] in _CELLS:
        before["architecture"] = "language_model" if settings.get("language_model") else "recurrent"
    if before["architecture"] == config.architecture:
        model = config.model_config.to_dict()
        requested = {**model, **requested}
        known = config.model_config.upgraded({name: model_config[name] for name in model if name in model_config})
        before = {**type(config.model_config).from_dict(known).to_dict(), **before}
    different = [name for name, value in requested.items() if value != before[name]]
    if "initial_model" in different and _is_same_input(requested["initial_model"], before["initial_model"]):
        different.remove("initial_model")
    if different:
        raise _differing(different, requested, before, "the run to resume")


def changed_learning_rate(folder: pathlib.Path, config: TrainingConfig) -> dict[str, tuple[object, object]]:
    """Compares the settings of the learning rate with those that a run began or last continued with.

    Returns:
        dict from the name of each setting that differs to its value before and its value now; empty if the settings
        cannot be read.
    """
    with contextlib.suppress(InputError, ConfigurationError):
        before = TrainingConfig.from_preset(folder / SETTINGS)
        pairs = {name: (getattr(before, name), getattr(config, name)) for name in _LEARNING_RATE}
        return {name: (old, new) for name, (old, new) in pairs.items() if old != new}
    return {}


def is_same_path(path: str, before: str) -> bool:
    """Whether a path is the one that an earlier run recorded.

    If the recorded file no longer exists, as in a model directory that was copied from another machine, only the names
    of the files are compared.
    """
    now, then = absolute(path), absolute(before)
    return now == then or (not is_url(then) and not exists(then) and os.path.basename(now) == os.path.basename(then))


def has_same_files(files: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Whether the files of pairs, by the names of their settings, are those that an earlier run recorded."""
    return files.keys() == before.keys() and all(is_same_path(path, before[name]) for name, path in files.items())


def _is_same_input(path: object, before: object) -> bool:
    """Whether a path leads to the file or the model that an earlier run recorded, or to a copy of it."""
    if not isinstance(path, str) or not isinstance(before, str):
        return False
    if is_same_path(path, before):
        return True
    files = [os.path.join(each, CONFIG) if os.path.isdir(each) else each for each in (path, before)]
    return all(map(os.path.isfile, files)) and file_checksum(files[0]) == file_checksum(files[1])


def check_initial_model(config: TrainingConfig, data: TrainingData) -> TrainedModel:
    """Checks the initial model's settings as far as they are known without loading it; see `check_initial_settings`."""
    assert config.initial_model is not None
    known = TrainedModel.read(config.initial_model)
    if known.hyperparameters is not None:  # otherwise, only the loaded model can tell
        is_same = known.config["architecture"] == config.architecture
        check_initial_settings(config, data, known, known.hyperparameters if is_same else None)
    return known


def check_initial_settings(
    config: TrainingConfig, data: TrainingData, known: TrainedModel, hyperparameters: Configuration | None
) -> None:
    """Checks that the settings of a training run are those of the model that it begins with.

    Args:
        config: TrainingConfig.
        data: TrainingData.
        known: TrainedModel, the initial model.
        hyperparameters: those of the initial model; `None` if they are unknown, or those of another architecture.

    Raises:
        ConfigurationError: a ValueError, for a setting that differs from the model's (a hyper-parameter, the direction
            or the tokenization), and for vocabularies, because the model has its own.
        InputError: if a model that spells words is to begin with a model of position words.
    """
    found: dict[str, object] = {"architecture": config.architecture, **config.model_config.to_dict()}
    found |= {"reverse": data.reverse, "tokenize": data.tokenize, "lowercase": data.lowercase}
    tokenization = known.tokenization
    expected = hyperparameters.to_dict() if hyperparameters else {"architecture": known.config["architecture"]}
    expected |= {
        "reverse": known.reverse,
        "tokenize": tokenization is not None,
        "lowercase": bool((tokenization or {}).get("lowercase", False)),
    }
    free = list(_FREE)
    if expected.get("characters") == "none":  # a hybrid model may begin with a word-based model
        free += [name for name in expected if name.startswith("character")]
    names = [name for name in expected if name not in free and found[name] != expected[name]]
    if names:
        raise _differing(names, found, expected, "the model of {initial_model}")
    given = [name for name in ("source_vocabulary", "target_vocabulary") if getattr(data, name)]
    if given:
        raise ConfigurationError(f"found {{{given[0]}}} with {{initial_model}}, which has its own; drop one of the two")
    if expected.get("characters") == "none" and found["characters"] in ("target", "both") and known.has_position_words:
        raise InputError(
            "found a model of position words such as unkpos_0, trained with --unknown=posunk",
            "expected one without them, because a model that spells words never replaces them",
            "begin with a model trained with --unknown=unk, or give --characters=source",
            known.path,
        )


def _differing(
    names: Sequence[str], found: Mapping[str, object], expected: Mapping[str, object], place: str
) -> ConfigurationError:
    """Makes the error for settings that differ from those of an earlier run."""
    texts = (
        ", ".join(f"no {{{name}}}" if settings[name] is None else f"{{{name}}}=%s" for name in names)
        for settings in (found, expected)
    )
    values = [settings[name] for settings in (found, expected) for name in names if settings[name] is not None]
    return ConfigurationError("found {}, expected {} as in {}".format(*texts, place), *values)


def check_has_zeros(has_zeros: bool, path: pathlib.Path) -> None:
    """Checks that the initial model of a run that keeps pruned weights has weights that are zero.

    Raises:
        InputError: if it has none.
    """
    if not has_zeros:
        remedy = "prune it with encdec-prune, or drop --keep_pruned"
        raise InputError("found no weight that is zero", "expected a pruned model with --keep_pruned", remedy, path)


def _check_validation_files(requested: list[str | None], before: list[str | None] | None, data: TrainingData) -> None:
    """Compares the checksums of the validation files: rounds can be compared only on the same pairs."""
    if before is None:  # the first versions did not save checksums
        return
    if len(requested) != len(before) or any(a != b for a, b in zip(requested, before, strict=True) if a and b):
        files = " ".join(validation_files(data)) or "none"
        raise ConfigurationError(
            "found {validation}=%s, expected the pairs that the run to resume was validated on; give the same "
            "files, or another {model_dir}",
            files,
        )


def validation_files(data: TrainingData) -> list[str]:
    """Lists the files of the validation pairs, and that of their alignment."""
    return [*data.validation, *([data.validation_alignment] if data.validation_alignment else [])]


def _fixed(config: Configuration) -> dict[str, object]:
    return {p.name: getattr(config, p.name) for p in config.hyperparameters() if p.fixed}


def _default(name: str, *configs: Configuration) -> object:
    return next(p.default for config in configs for p in config.hyperparameters() if p.name == name)
