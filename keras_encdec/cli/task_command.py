"""Makes a command from a task's function and its options."""

import contextlib
import itertools
import pathlib
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from absl import flags

from keras_encdec.cli.command import INTERRUPTED, Command, UsageError
from keras_encdec.cli.flags import (
    Repeated,
    configuration_from_flags,
    define_configuration_flags,
    define_progress_flags,
    text_flag,
)
from keras_encdec.cli.process import say
from keras_encdec.configuration import Configuration
from keras_encdec.errors import EncdecWarning, FilePath

# The argument that names a command's trained model. `--task` chooses one of the model's tasks.
MODEL = "model_dir"
Options = TypeVar("Options", bound=Configuration)
# The value of the flag that names a command's models.
ModelPaths = TypeVar("ModelPaths", str, list[str], None)
# Values of a command's files and folders by argument: a path, a list for `Repeated`, or `None` if it is not given.
Arguments = dict[str, Any]


def task_command(
    name: str,
    work: Callable[[Arguments, Options], int | None],
    options: type[Options],
    required: Mapping[str, str] | None = None,
    optional: Mapping[str, str] | None = None,
    flag_names: Mapping[str, str] | None = None,
    repeated: Collection[str] = (),
    interrupted: str = INTERRUPTED,
    serves: bool = False,
    progress: bool = False,
    example: str = "",
    guide: str = "",
) -> Command:
    """Makes a command with a flag for each file or folder of a task, and for each of its options.

    Args:
        name: str, such as "encdec-score".
        work: callable that takes a dict from argument to value (`None` if it is not given), and the options. The
            docstring of its module is the description in `--help`. See `Command` for what it may return and raise.
        options: class of the options. Each option becomes a flag, made from its declaration.
        required: dict from argument to help: files and folders that must be given. The help of an argument that may be
            given several times is `Repeated`; its value is a list. Defaults to none.
        optional: dict from argument to help: files and folders that may be given. Defaults to none.
        flag_names: dict from argument or option to the name of its flag, if they differ. Optional.
        repeated: names of tuples of text among the options whose flags are given once for each item. The flag of any
            other tuple takes its items separated by commas. Defaults to none.
        interrupted: str. Message shown when a signal ends the command, see `Command`.
        serves: bool. Whether the command serves requests, see `Command`. Defaults to `False`.
        progress: bool. Whether the work takes long, so that the command has the flags of `define_progress_flags`.
            Defaults to `False`.
        example, guide: see `Command`. Optional.

    Example:

        COMMAND = task_command("encdec-score", main, ScoringOptions, {"input": "File to score."})
    """
    help_texts = {**(required or {}), **(optional or {})}
    names = {argument: argument for argument in help_texts} | dict(flag_names or {})
    module = work.__module__

    def define_flags(flag_values: flags.FlagValues) -> None:
        for argument, text in help_texts.items():
            flag = text_flag(names[argument], text, isinstance(text, Repeated))
            flags.DEFINE_flag(flag, flag_values, module_name=module)
        if MODEL in help_texts:
            define_task_flag(flag_values, module)
        define_configuration_flags(flag_values, options, module, names, repeated=repeated)
        if progress:
            define_progress_flags(flag_values, serves)

    def main(flag_values: flags.FlagValues) -> int | None:
        arguments = {argument: flag_values[names[argument]].value for argument in help_texts}
        for argument, text in help_texts.items():
            if isinstance(text, Repeated) and arguments[argument] is None:
                arguments[argument] = []
        if MODEL in arguments:
            arguments[MODEL] = models_of_task(flag_values, arguments[MODEL])
        return work(arguments, configuration_from_flags(options, flag_values, flag_names=names))

    required_flags = [names[argument] for argument in required or ()]
    texts = [names[argument] for argument in ("other_weights", *repeated) if argument in names]
    models = [names[MODEL]] if MODEL in names else []
    return Command(
        name, define_flags, main, required_flags, names, interrupted, serves, module, example, guide, texts, models
    )


def define_task_flag(flag_values: flags.FlagValues, section: str) -> None:
    """Defines the flag `--task` of a command that opens a trained model, under a heading in `--help`."""
    text = "Task of a model that was trained with --tasks. Default: the main task."
    flags.DEFINE_string("task", None, text, flag_values, module_name=section)


def models_of_task(flag_values: flags.FlagValues, models: ModelPaths) -> ModelPaths:
    """Returns the model directories of the task that `--task` names; without the flag, the models as they are given.

    Raises:
        UsageError: for a task without a model.
        InputError: see `task_path`.
    """
    from keras_encdec.model_config import task_path

    task = flag_values.task
    if task is None:
        return models
    if not models:
        raise UsageError(f"found --task={task} without --{MODEL}, expected both.")
    if isinstance(models, list):
        return [str(task_path(model, task)) for model in models]
    return str(task_path(models, task))


def check_paths(
    models: Iterable[FilePath | None] = (),
    inputs: Iterable[FilePath | None] = (),
    outputs: Iterable[FilePath | None] = (),
    folders: Iterable[FilePath | None] = (),
) -> None:
    """Checks paths before Keras is imported, so that a wrong one is found at once. `None` is ignored.

    If a training run recorded a remark about its model, the remark is shown as a warning.

    Args:
        models: paths of model directories. Defaults to none.
        inputs: paths of files to read. Defaults to none.
        outputs: paths of files to write. Defaults to none.
        folders: paths of folders to write. Defaults to none.

    Raises:
        InputError: for the first path that is not what is expected.
        ConfigurationError: a ValueError, if a file to write is given for another purpose, too.
        UsageError: if two files to write are the standard output.
    """
    # Imported late, so that encdec-doctor starts even where one of their libraries is missing.
    from keras_encdec.model_config import check_model_directory
    from keras_encdec.runtime.files import (
        STANDARD_STREAM,
        check_distinct_files,
        check_folder,
        check_readable,
        check_writable,
    )

    read, written, made = ([path for path in paths if path] for paths in (inputs, outputs, folders))
    for model in models:
        if model and (remark := check_model_directory(model)):
            warnings.warn(f"{model}: {remark}", EncdecWarning, stacklevel=2)
    for path in read:
        check_readable(path)
    for path in written:
        check_writable(path)
    for path in made:
        check_folder(path)
    check_distinct_files(*written)
    if written.count(STANDARD_STREAM) > 1:
        raise UsageError("found - as the name of two outputs, expected a file for one of them.")
    for pair in itertools.product(read, written):
        check_distinct_files(*pair)


def zeros_of_model(path: pathlib.Path) -> tuple[int, int] | None:
    """Counts the zeros of a model, see `count_zeros`, before Keras is imported.

    Returns `None` for weights that cannot be read, which is reported when the model is loaded.
    """
    from keras_encdec.model_config import WEIGHTS
    from keras_encdec.sparse_weights import count_zeros  # h5py and NumPy take a tenth of a second

    with contextlib.suppress(OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile):
        return count_zeros(path / WEIGHTS)
    return None


def show_summary(summary: object) -> None:
    """Prints a task's summary on standard error, and then its notices."""
    say(summary)
    show_notices(summary)


def show_notices(summary: object) -> None:
    """Prints each notice of a task's summary, if it has any, on a line of standard error."""
    for notice in getattr(summary, "notices", ()):
        say(notice)
