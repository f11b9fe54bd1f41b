"""The tasks of a training run, which share encoders and decoders, read from a TOML file."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any, Self

from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.errors import FilePath, InputError, shortened
from keras_encdec.runtime.files import absolute, resolved
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.settings_files import check_exists, read_toml, toml_lines, toml_value
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

KINDS = ("translation", "autoencoder", "skip_thought")
# The settings of a task that name files of pairs, and those that name any files.
PAIR_FILES = ("phrase_table", "tsv", "source", "target")
FILES = (*PAIR_FILES, "text", "source_vocabulary", "target_vocabulary")
# The copy of the tasks in the model directory.
TASKS_FILE = "tasks.toml"
_SECTIONS = ("main", "tasks")


@dataclasses.dataclass(frozen=True)
class TaskConfig(Configuration):
    """A section `[tasks.NAME]`: the data of a task, and the encoder and the decoder that it uses."""

    kind: str = hyperparameter(
        "translation",
        "What is learned: the target of each pair (translation); each sentence of a text from itself (autoencoder); "
        "the second half of each sentence from its first half (skip_thought).",
        choices=KINDS,
    )
    encoder: str = hyperparameter("", "Name of the encoder. Tasks that give the same name share it.")
    decoder: str = hyperparameter("", "Name of the decoder. Tasks that give the same name share it.")
    ratio: float | None = hyperparameter(
        None,
        "Mixing ratio: updates of this task for each update of the main task, on average. That of the main task is 1.",
        above=0,
        maximum=1000,
        published={"Luong et al., 2016, section 4.2": "0.01 to 1"},
    )
    phrase_table: str | None = hyperparameter(None, "With translation: Moses phrase table, plain or gzipped.")
    tsv: str | None = hyperparameter(None, "With translation: pairs of source, tab, target.")
    source: str | None = hyperparameter(
        None, "With translation: source sentences, one per line; needs target sentences."
    )
    target: str | None = hyperparameter(
        None, "With translation: target sentences, aligned line by line with the source."
    )
    text: str | None = hyperparameter(None, "With autoencoder and skip_thought: sentences, one per line.")
    source_vocabulary: str | None = hyperparameter(
        None, "Vocabulary file of the encoder, one word per line. Default: made from the data."
    )
    target_vocabulary: str | None = hyperparameter(
        None, "Vocabulary file of the decoder, one word per line. Default: made from the data."
    )

    def check(self) -> None:
        for name in ("encoder", "decoder"):
            if not getattr(self, name):
                raise ConfigurationError(f"found no {{{name}}}, expected its name")
        given = [name for name in PAIR_FILES if getattr(self, name)]
        if self.kind != "translation":
            if given:
                raise ConfigurationError(f"found {{{given[0]}}} with {{kind}}=%s, expected {{text}} alone", self.kind)
            if not self.text:
                raise ConfigurationError("found no {text} with {kind}=%s, expected a file of sentences", self.kind)
            return
        if self.text:
            raise ConfigurationError(
                "found {text} with {kind}=translation, expected {kind}=autoencoder or skip_thought with it"
            )
        if given not in (["phrase_table"], ["tsv"], ["source", "target"]):
            found = " and ".join(f"{{{name}}}" for name in given) or "no data"
            raise ConfigurationError(
                f"found {found}, expected {{phrase_table}}, {{tsv}}, or {{source}} with {{target}}"
            )

    @property
    def files(self) -> dict[str, str]:
        """The files of the task by the names of their settings."""
        return {name: getattr(self, name) for name in FILES if getattr(self, name)}

    @property
    def pair_files(self) -> dict[str, str]:
        """The files of pairs by the names of their settings, which `TrainingData` has too."""
        return {name: getattr(self, name) for name in PAIR_FILES if getattr(self, name)}


@dataclasses.dataclass(frozen=True)
class TrainingTasks:
    """The tasks of a training run, one of which is the main task.

    Each update takes task i with the probability ratio_i / sum of all ratios. Epochs, the learning rate, validation
    and the end of the training are those of the main task.

    Attributes:
        main: str. Name of the main task.
        tasks: dict from name to TaskConfig. The main task is moved to the front.

    Raises:
        ConfigurationError: a ValueError, for names that cannot be used, a main task that is not among the tasks or is
            not a translation, a missing or wrong ratio, and two vocabularies of one encoder or decoder.

    Reference:
        - Luong et al., 2016 (arXiv 1511.06114), section 3.4
    """

    main: str
    tasks: Mapping[str, TaskConfig]

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ConfigurationError("found no section [tasks.NAME], expected one for each task")
        for name in self.tasks:
            if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name):
                raise ConfigurationError(
                    "found the task %s, expected letters, digits, - and _ in its name", shortened(repr(name))
                )
        names = ", ".join(self.tasks)
        if not self.main:
            raise ConfigurationError("found no main task, expected main = with the name of one of the tasks: %s", names)
        if self.main not in self.tasks:
            raise ConfigurationError("found main=%s, expected one of the tasks: %s", shortened(self.main), names)
        object.__setattr__(self, "tasks", {self.main: self.tasks[self.main], **self.tasks})
        main = self.tasks[self.main]
        if main.kind != "translation":
            raise ConfigurationError(
                "found kind=%s in [tasks.%s], expected translation for the main task", main.kind, self.main
            )
        if main.ratio not in (None, 1.0):
            raise ConfigurationError(
                "found ratio=%g in [tasks.%s], expected 1 for the main task: the other ratios count updates for each "
                "of its updates",
                main.ratio,
                self.main,
            )
        for name, task in self.others.items():
            if task.ratio is None:
                raise ConfigurationError("found no ratio in [tasks.%s], expected one, such as 0.1", name)
        for side in ("encoder", "decoder"):
            self.vocabularies(side)

    @property
    def others(self) -> dict[str, TaskConfig]:
        """All tasks except the main task."""
        return {name: task for name, task in self.tasks.items() if name != self.main}

    @property
    def ratios(self) -> dict[str, float]:
        """The mixing ratio of each task."""
        return {name: task.ratio or 1.0 for name, task in self.tasks.items()}

    def vocabularies(self, side: str) -> dict[str, str]:
        """Finds the given vocabulary file of each encoder or decoder.

        Args:
            side: str. "encoder" or "decoder".

        Returns:
            dict from the name of the encoder or decoder to a path, without those whose vocabulary is made from the
            data.

        Raises:
            ConfigurationError: for two files of one encoder or decoder.
        """
        setting = {"encoder": "source_vocabulary", "decoder": "target_vocabulary"}[side]
        owners: dict[str, tuple[str, str]] = {}
        for name, task in self.tasks.items():
            if path := getattr(task, setting):
                other, expected = owners.setdefault(getattr(task, side), (name, path))
                if absolute(path) != absolute(expected):
                    raise ConfigurationError(
                        f"found {setting}=%s in [tasks.%s] and %s in [tasks.%s], expected one vocabulary of their "
                        f"{side} %s",
                        path,
                        name,
                        expected,
                        other,
                        getattr(task, side),
                    )
        return {part: path for part, (_, path) in owners.items()}

    @property
    def main_files(self) -> dict[str, str]:
        """The files of the main task by the names that `TrainingData` gives them."""
        main = self.tasks[self.main]
        vocabularies = {
            "source_vocabulary": self.vocabularies("encoder").get(main.encoder),
            "target_vocabulary": self.vocabularies("decoder").get(main.decoder),
        }
        return {**main.pair_files, **{name: path for name, path in vocabularies.items() if path}}

    def training_data(self, **options: Any) -> TrainingData:
        """Makes the data of the main task.

        Args:
            **options: options of `TrainingData`: how to read the files of all tasks, and the pairs to validate on.

        Raises:
            ConfigurationError: a ValueError, for options that contradict one another.
        """
        return TrainingData(**{**self.main_files, **options})

    def data_of(self, name: str, data: TrainingData) -> TrainingData | None:
        """Makes the data with which a model of one task can be trained further on its own.

        Args:
            name: str. The task.
            data: TrainingData of the main task: how to read the files of all tasks.

        Returns:
            TrainingData, with the files of the task, and without files to validate on, which are the main task's;
            `None` for a task whose pairs are halves of sentences, because no file has them.
        """
        task = self.tasks[name]
        files: dict[str, str | None] = dict.fromkeys(PAIR_FILES) | task.pair_files
        if task.kind == "autoencoder":
            files |= {"source": task.text, "target": task.text}
        elif task.kind != "translation":
            return None
        files["source_vocabulary"] = self.vocabularies("encoder").get(task.encoder)
        files["target_vocabulary"] = self.vocabularies("decoder").get(task.decoder)
        in_tokens = {"tokenize": False, "lowercase": False} if task.phrase_table else {}
        return data.replace(**files, **in_tokens, validation=())

    def check_together(self, config: TrainingConfig, data: TrainingData) -> None:
        """Checks that the options of the training and of its data work with several tasks.

        Raises:
            ConfigurationError: a ValueError, for files that are not those of the main task, and for options that do not
                work with several tasks.
        """
        named = {**data.files, **{name: getattr(data, name) for name in ("source_vocabulary", "target_vocabulary")}}
        for name, path in named.items():
            own = self.main_files.get(name)
            if path and (own is None or absolute(path) != absolute(own)):
                raise ConfigurationError(
                    f"found {{{name}}}=%s with {{tasks}}, expected the file in the section [tasks.%s]", path, self.main
                )
        if data.reverse:
            raise ConfigurationError(
                "found {reverse} with {tasks}; swap source and target in [tasks.%s] instead", self.main
            )
        if data.has_position_words:
            raise ConfigurationError("found {unknown}=posunk with {tasks}, which have no word alignments; drop one")
        if not config.has_source:
            raise ConfigurationError(
                "found {tasks} with {architecture}=%s, which has no source; drop one of the two", config.architecture
            )
        for name, reason in (("initial_model", "begins with new weights"), ("gradual_pruning", "is not pruned")):
            if getattr(config, name):
                raise ConfigurationError(
                    f"found {{{name}}} with {{tasks}}, but a model of several tasks {reason}; drop one of the two"
                )
        if config.devices != "1":
            raise ConfigurationError("found {devices}=%s with {tasks}, expected it with 1 device", config.devices)
        characters = config.model_config.to_dict().get("characters", "none")
        if characters != "none":
            raise ConfigurationError("found {characters}=%s with {tasks}, expected one of them", characters)
        if config.dtype_policy == "mixed_float16":
            raise ConfigurationError(
                "found {tasks} with {dtype_policy}=mixed_float16, which scales the losses of all tasks by one factor; "
                "give {dtype_policy}=mixed_bfloat16 or float32"
            )

    def fixed(self) -> dict[str, dict[str, object]]:
        """Collects what a resumed run must keep: everything except the files."""
        names = ("kind", "encoder", "decoder")
        return {
            name: {**{key: getattr(task, key) for key in names}, "ratio": self.ratios[name]}
            for name, task in self.tasks.items()
        }

    def save(self, path: pathlib.Path) -> None:
        """Writes the tasks in TOML, with absolute paths."""
        lines = ["# The tasks that this model was trained on.", f"main = {toml_value(self.main)}"]
        for name, task in self.tasks.items():
            files = {key: absolute(file) for key, file in task.files.items()}
            lines += ["", f"[tasks.{name}]", *toml_lines({**task.to_dict(), **files})]
        write_file(path, ("\n".join(lines) + "\n").encode())

    @classmethod
    def load(cls, path: FilePath, check_files: bool = True) -> Self:
        """Reads the tasks from a TOML file, whose relative paths start from the file's directory.

        Args:
            path: path of the file, which contains `main`, the name of the main task, and for each task a section
                `[tasks.NAME]` with the values of a `TaskConfig`.
            check_files: bool. Whether to check that the files named in it exist. A resumed run does not read them.
                Defaults to `True`.

        Raises:
            InputError: if the file, or a file that it names, cannot be read, or a setting cannot be used; the error
                names the section.
        """
        values = read_toml(path, "expected tasks in TOML", "check --tasks")
        for name in values:
            if name not in _SECTIONS:
                found = f"found the unknown setting {shortened(name)}"
                raise InputError(found, "expected main = and sections [tasks.NAME]", "", path)
        main, sections = values.get("main", ""), values.get("tasks", {})
        if not isinstance(main, str):
            raise InputError(f"found main = {shortened(repr(main))}", "expected the name of a task", "", path)
        if not isinstance(sections, dict):
            raise InputError("found a value for tasks", "expected sections [tasks.NAME]", "", path)
        try:
            return cls(main, {name: _task(path, name, section, check_files) for name, section in sections.items()})
        except ConfigurationError as error:
            raise InputError(str(error), path=path) from None


def _task(path: FilePath, name: str, section: object, check_files: bool) -> TaskConfig:
    where = f"[tasks.{shortened(name)}]"
    if not isinstance(section, dict):
        raise InputError(f"found tasks.{name} = {shortened(repr(section))}", f"expected a section {where}", "", path)
    files = {key: section[key] for key in FILES if isinstance(section.get(key), str)}
    files = {key: resolved(path, file) for key, file in files.items()}
    try:
        task = TaskConfig.from_dict({**section, **files})
    except ConfigurationError as error:
        raise InputError(f"{error}, in {where}", path=path) from None
    for key, file in task.files.items() if check_files else ():
        check_exists(file, f"{key} in {where}", path)
    return task
