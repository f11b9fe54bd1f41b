"""The configuration file of a model directory, read and written without Keras."""

import json
import os
import pathlib
from collections.abc import Mapping, Sequence

from keras_encdec import __version__
from keras_encdec.errors import FilePath, InputError, shortened
from keras_encdec.runtime.files import check_path, exists, file_checksum, is_url, resolved
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.remote_folders import local_copy
from keras_encdec.runtime.settings_files import Json, read_parsed

FORMAT = 1
CONFIG, WEIGHTS, HISTORY = "config.json", "best.keras", "history.json"
SOURCE_VOCABULARY, TARGET_VOCABULARY = "source.vocab", "target.vocab"
# The character vocabularies of models that read or spell words outside the shortlists.
SOURCE_CHARACTERS, TARGET_CHARACTERS = "source.characters", "target.characters"
VOCABULARIES = (SOURCE_VOCABULARY, TARGET_VOCABULARY, SOURCE_CHARACTERS, TARGET_CHARACTERS)
NOT_A_MODEL = "expected a model directory made by encdec-train"
# The model that encdec-serve serves if no other is named.
STARTER = "libreoffice_en_fr"
# The folder of the models that come with the package, which `make packaged-model` makes.
PACKAGED = pathlib.Path(__file__).parent / "packaged_models"


def packaged_models() -> list[str]:
    """Returns the names of the trained models that come with the package, sorted."""
    return sorted(path.parent.name for path in PACKAGED.glob(f"*/{CONFIG}"))


def is_packaged(model: FilePath) -> bool:
    """Returns whether a model is the name of a packaged model, and no file in the working directory has that name."""
    return os.fspath(model) in packaged_models() and not os.path.lexists(model)


def resolved_or_packaged(file: FilePath, name: str) -> str:
    """Returns the path for a name in a file, see `resolved`; for a packaged model, its name unless the path exists."""
    path = resolved(file, name)
    return name if name in packaged_models() and not exists(path) else path


def model_path(model: FilePath) -> pathlib.Path:
    """Finds the directory of a model that is given as a path, or as the name of a packaged model.

    A file or directory of that name in the working directory takes precedence.

    Args:
        model: path or URL of a model directory, or one of `packaged_models()`.

    Returns:
        pathlib.Path. For a URL, a copy on this machine; for the name of a packaged model, its folder; otherwise
        `model` itself.

    Example:

    >>> model_path("libreoffice_en_fr").is_dir(), str(model_path("my/model"))
    (True, 'my/model')
    """
    check_path(model, "a model directory")
    if is_url(model):
        return local_copy(os.fspath(model))
    path = pathlib.Path(model)
    return PACKAGED / path if is_packaged(model) else path


def short_name(folder: FilePath) -> str:
    """Returns the last two names in the absolute path of a model directory, which distinguish it from others.

    For the model of a task other than the main one, they are followed by the folder of the task.

    Example:

    >>> short_name("/home/me/models/rnn")
    'models/rnn'
    """
    path = pathlib.Path(folder).resolve()
    is_of_task = len(path.parts) > 3 and path == task_folder(path.parents[1], path.name)
    names = 4 if is_of_task and (path.parents[1] / CONFIG).is_file() else 2
    return "/".join(path.parts[-names:]).lstrip("/")


def task_folder(folder: pathlib.Path, task: str) -> pathlib.Path:
    """Returns the folder of a task's model in the directory of a model that was trained on several tasks.

    Args:
        folder: pathlib.Path of the directory, which is itself the folder of the main task.
        task: str. Name of another task.
    """
    return folder / "tasks" / task


def tasks_of(folder: pathlib.Path) -> list[str]:
    """Returns the names of the tasks in a model directory, the main task first; empty for a model of one task.

    Raises:
        InputError: if its configuration cannot be read.
    """
    known = read_model_config(folder).get("training", {}).get("tasks", {})
    return list(known) if isinstance(known, dict) else []


def task_path(model: FilePath, task: str | None) -> pathlib.Path:
    """Finds the model directory of one task of a model that was trained on several tasks.

    Args:
        model: path of the model directory.
        task: str. Name of one of its tasks; `None` for the main task.

    Returns:
        pathlib.Path. For the main task, the path of `model` itself.

    Raises:
        InputError: if `model` is not a model directory, or was not trained on this task.
    """
    path = model_path(model)
    if task is None:
        return path
    tasks = tasks_of(path)
    if task not in tasks:
        expected = (
            f"expected one of its tasks: {', '.join(tasks)}" if tasks else "expected a model trained with --tasks"
        )
        raise InputError(f"found no task {shortened(task)} in it", expected, "check --task", path)
    return path if task == tasks[0] else task_folder(path, task)


def check_model_directory(path: FilePath) -> str | None:
    """Checks quickly, without Keras, that a path or a name belongs to a model directory with weights.

    Returns:
        str, the remark that the training recorded about the model; `None` without one.

    Raises:
        InputError: if it does not.
    """
    folder = model_path(path)
    remark = read_model_config(folder).get("remark")
    check_has_weights(folder / WEIGHTS)
    return shortened(remark, 300) if isinstance(remark, str) else None


def check_has_history(path: FilePath) -> None:
    """Checks, without Keras, that a path or a name belongs to a model directory with the history of its training.

    Raises:
        InputError: if it does not.
    """
    folder = model_path(path)
    read_model_config(folder)
    if not (folder / HISTORY).is_file():
        expected = "expected the history of the training"
        raise InputError(f"found no {HISTORY}", expected, "copy it from where the model was trained", folder)


def check_has_weights(path: pathlib.Path) -> None:
    """Checks that a file of weights exists.

    Raises:
        InputError: if it does not.
    """
    if not path.is_file():
        remedy = "train the model (encdec-train saves them after its first round)"
        raise InputError(f"found no {path.name}", "expected the model's weights", remedy, path.parent)


def read_model_config(path: pathlib.Path) -> dict[str, Json]:
    """Reads the configuration of a model directory.

    Raises:
        InputError: if it is not a model directory, or has another format.
    """
    try:
        config = read_parsed(path / CONFIG, json.loads)
        found = config["format"]
        if found == FORMAT:
            _check_values(config)
    except (FileNotFoundError, NotADirectoryError):
        other = "found a file" if path.is_file() else "found no such directory"
        what = f"found no {CONFIG} in it" if path.is_dir() else other
        is_name = len(path.parts) == 1 and not path.exists()
        names = f", or the name of a packaged model ({', '.join(packaged_models())})" if is_name else ""
        # A slash turns a name into a path: "libreoffice_en_fr/".
        remedy = "give the name without a slash" if is_name and path.name in packaged_models() else "check the path"
        raise InputError(what, NOT_A_MODEL + names, remedy, path) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        remedy = "copy the directory again from where it worked, or train again"
        raise InputError(f"found a file that cannot be read ({reason})", NOT_A_MODEL, remedy, path / CONFIG) from None
    if found != FORMAT:
        made_by = shortened(str(config.get("made_by", "another version")))
        raise InputError(
            f"found a model directory of format {found}, made by {made_by}",
            f"expected format {FORMAT}, which keras-encdec {__version__} reads",
            "use the version that made it, or train again",
            path / CONFIG,
        )
    # The first versions saved no checksums, and later ones only those of the vocabularies.
    config.setdefault("sha256", {})
    # In the first version, a model without source words was a language model.
    config.setdefault("has_source", config.get("model", {}).get("source_words") != 0)
    return config


def _check_values(config: dict[str, Json]) -> None:
    """Raises KeyError for a missing value of a `config.json`, and ValueError for one that has another form."""
    tokenizations = None, {}, {"lowercase": True}, {"lowercase": False}
    if config["direction"] not in ("forward", "reverse") or config["tokenization"] not in tokenizations:
        raise ValueError("its direction or its tokenization is unknown")
    if not all(isinstance(config.get(name, {}), dict) for name in ("model", "training")):
        raise ValueError("its model or its training is not a list of settings")
    if not isinstance(config.get("has_source", True), bool):
        raise ValueError("its has_source is neither true nor false")
    if not _is_checksums(config.get("sha256", {})):
        raise ValueError("its sha256 is not a list of checksums of its vocabularies and weights")


def _is_checksums(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(checksums, str if name in VOCABULARIES else list) and name in (*VOCABULARIES, WEIGHTS)
        for name, checksums in value.items()
    )


def write_model_config(folder: pathlib.Path, config: Mapping[str, object]) -> None:
    """Writes the configuration of a model directory. Raises InputError if the file cannot be written."""
    write_file(folder / CONFIG, (json.dumps(config, indent=1) + "\n").encode())


def replace_weights(folder: pathlib.Path, written: pathlib.Path) -> None:
    """Makes a file the weights of a model directory, and records their checksum in `config.json`.

    While only one of the two is new, `config.json` allows both the old weights and the new ones: a process that is
    killed in between leaves a directory that loads.

    Args:
        folder: path of the model directory. Without a `config.json` in it, no checksum is kept.
        written: the file, in the same folder; it is renamed.

    Raises:
        InputError: if `config.json` cannot be written.
    """
    weights, checksum = folder / WEIGHTS, file_checksum(written)
    _record_weights(folder, [checksum, *([file_checksum(weights)] if weights.exists() else [])])
    os.replace(written, weights)
    _record_weights(folder, [checksum])


def record_remark(folder: pathlib.Path, remark: str | None) -> None:
    """Records in `config.json` a remark that commands print when they open the model.

    Args:
        folder: path of the model directory.
        remark: str. A sentence; `None` removes an earlier one.

    Raises:
        InputError: if `config.json` cannot be written.
    """
    config = json.loads((folder / CONFIG).read_bytes())
    if config.get("remark") != remark:
        others = {name: value for name, value in config.items() if name != "remark"}
        write_model_config(folder, {**others, "remark": remark} if remark else others)


def _record_weights(folder: pathlib.Path, checksums: Sequence[str]) -> None:
    if (folder / CONFIG).exists():
        config = json.loads((folder / CONFIG).read_bytes())
        if config.get("sha256", {}).get(WEIGHTS) != checksums:
            write_model_config(folder, {**config, "sha256": {**config.get("sha256", {}), WEIGHTS: checksums}})
