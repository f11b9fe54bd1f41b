"""Prepares the pairs of all tasks of a training run, and draws the task of each update."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_encdec.backend.task_steps import TaskUpdate
from keras_encdec.data import Batches, PreparedPairs, open_pairs, prepare
from keras_encdec.errors import InputError
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.model_config import task_folder
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import MultiTaskModel, TaskParts
from keras_encdec.text import Tokenizer, Vocabulary
from keras_encdec.trainers.job import TrainingJob
from keras_encdec.trainers.settings_checks import has_same_files
from keras_encdec.trainers.tasks import TASKS_FILE, TaskConfig, TrainingTasks
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData
from keras_encdec.trainers.training_files import PREPARED, begin_files

# Distinguishes the random numbers that draw tasks from those that order pairs.
_DRAWS = 0x7A5C


@dataclasses.dataclass(frozen=True)
class PreparedTasks:
    """The tasks of a training run with their pairs.

    Attributes:
        tasks: TrainingTasks.
        directories: dict from task to ModelDirectory without a model; the main task is the first.
        pairs: dict from task to PreparedPairs, except for the main task.
    """

    tasks: TrainingTasks
    directories: Mapping[str, ModelDirectory]
    pairs: Mapping[str, PreparedPairs]

    def new_model(self, config: TrainingConfig) -> MultiTaskModel:
        """Builds a new model of all tasks."""
        parts = {
            name: TaskParts(
                task.encoder,
                task.decoder,
                len(self.directories[name].source_vocabulary),
                len(self.directories[name].target_vocabulary),
            )
            for name, task in self.tasks.tasks.items()
        }
        return MultiTaskModel(config.architecture, parts, **config.model_config.to_dict(), dtype=config.dtype_policy)

    def updates(self, config: TrainingConfig, widths: list[int] | None, first: int) -> Iterator[list[TaskUpdate]]:
        """Yields, for each update of the main task, the updates of the other tasks that come before it.

        They depend only on the seed: a stream that starts at a later update gives the same updates from there on.

        Args:
            config: TrainingConfig.
            widths: list of int, see `Batches`.
            first: int. The update of the main task to start at, from 0.
        """
        before = drawn_tasks(self.tasks.ratios, self.tasks.main, config.seed)
        done = dict.fromkeys(self.pairs, 0)
        for _ in range(first):
            for name in next(before):
                done[name] += 1
        streams = {
            name: Batches(pairs, config.batch_size, seed=config.seed, widths=widths).stream(done[name])
            for name, pairs in self.pairs.items()
        }
        for names in before:
            yield [(name, next(streams[name])) for name in names]


def drawn_tasks(ratios: Mapping[str, float], main: str, seed: int) -> Iterator[list[str]]:
    """Draws tasks, with the probabilities ratio_i / sum of all ratios, until the main task is drawn, over and over.

    Args:
        ratios: dict from task to mixing ratio.
        main: str. Name of the main task.
        seed: int.

    Yields:
        list of str: the tasks drawn before the main task.

    Example:

    >>> draws = drawn_tasks({"fr": 1.0, "de": 2.0}, "fr", seed=1)
    >>> [len(next(draws)) for _ in range(8)]
    [1, 0, 0, 1, 0, 4, 0, 2]
    """
    random, names = np.random.default_rng([seed, _DRAWS]), list(ratios)
    borders = np.cumsum(list(ratios.values())) / sum(ratios.values())
    while True:
        before = []
        while (name := names[min(int(np.searchsorted(borders, random.random(), "right")), len(names) - 1)]) != main:
            before.append(name)
        yield before


def prepare_tasks(job: TrainingJob, tasks: TrainingTasks, main: ModelDirectory, resume: bool) -> PreparedTasks:
    """Prepares the pairs of all tasks except the main task, or opens those that an earlier run prepared.

    Unless a file is given, the vocabulary of an encoder is made from the sources of the first task that uses it; the
    main task comes first. The vocabulary of a decoder is made from the targets in the same way.

    Args:
        job: TrainingJob.
        tasks: TrainingTasks of the job.
        main: ModelDirectory of the main task, with its vocabularies.
        resume: bool. Whether the run is resumed.

    Raises:
        InputError: if a file cannot be used, or a task has no pairs.
    """
    directories, pairs = {tasks.main: main}, {}
    encoders: dict[str, Vocabulary] = {}
    decoders: dict[str, Vocabulary] = {}
    if not resume:  # the task folders of a run to resume have the vocabularies
        tasks.save(main.path / TASKS_FILE)
        main_task = tasks.tasks[tasks.main]
        encoders = _read_vocabularies(tasks.vocabularies("encoder")) | {main_task.encoder: main.source_vocabulary}
        decoders = _read_vocabularies(tasks.vocabularies("decoder")) | {main_task.decoder: main.target_vocabulary}
    files_before = _files_before(main.path / TASKS_FILE) if resume else {}
    for name, task in tasks.others.items():
        folder = task_folder(main.path, name)
        before = ModelDirectory.load(folder, weights=False) if resume else None
        if before and (folder / PREPARED).exists():
            directory, pairs[name] = before, PreparedPairs(folder / PREPARED)
            if name in files_before and not has_same_files(task.files, files_before[name]):
                job.reporter.say(f"Task {name}:")
                job.reporter.prepared_before(files_before[name].values(), task.files.values())
        else:
            job.reporter.say(f"Task {name}:")
            given = encoders.get(task.encoder), decoders.get(task.decoder)
            given = (before.source_vocabulary, before.target_vocabulary) if before else given
            pairs[name], source, target = _prepared(job, name, task, folder, given)
            directory = before or ModelDirectory(folder, source, target, tokenization=main.tokenization)
            if not resume:
                begin_files(directory, job.config, tasks.data_of(name, job.data))
        directories[name] = directory
        encoders.setdefault(task.encoder, directory.source_vocabulary)
        decoders.setdefault(task.decoder, directory.target_vocabulary)
    return PreparedTasks(tasks, directories, pairs)


def _files_before(path: pathlib.Path) -> dict[str, dict[str, str]]:
    """Returns the files that the tasks of a run to resume were prepared from; empty if they cannot be read."""
    with contextlib.suppress(InputError):
        return {name: task.files for name, task in TrainingTasks.load(path, check_files=False).tasks.items()}
    return {}


def _read_vocabularies(paths: Mapping[str, str]) -> dict[str, Vocabulary]:
    return {part: Vocabulary.from_word_list(path) for part, path in paths.items()}


def _prepared(
    job: TrainingJob,
    name: str,
    task: TaskConfig,
    folder: pathlib.Path,
    vocabularies: tuple[Vocabulary | None, Vocabulary | None],
) -> tuple[PreparedPairs, Vocabulary, Vocabulary]:
    data = job.data
    with _open(data, task) as (records, reader):
        try:
            pairs, source, target = prepare(
                records, folder / PREPARED, data.shortlist, data.max_length, job.config.seed, vocabularies
            )
        except InputError as error:
            if error.path is not None:
                raise
            raise InputError(
                f"{error.found}, in the task {name}", error.expected, error.remedy, next(iter(task.files.values()))
            ) from None
        sizes = {"source": len(source), "target": len(target)}
        job.reporter.prepared(pairs.summary, reader.malformed, sizes, data.max_length)
    return pairs, source, target


@contextlib.contextmanager
def _open(data: TrainingData, task: TaskConfig) -> Iterator[tuple[Iterator[WordPair], RecordReader]]:
    """Opens the pairs of a task. Those of a text are made from its sentences."""
    tokenizer = Tokenizer(lowercase=data.lowercase) if data.tokenize and not task.phrase_table else None
    kind = "sentences" if task.text else "parallel" if task.source else next(iter(task.pair_files))
    with open_pairs(
        task.text or task.phrase_table or task.tsv or task.target or "",
        kind,
        source_path=task.source,
        encoding=data.encoding,
        on_error=data.on_error,
        tokenizer=tokenizer,
    ) as (records, reader):
        if task.kind == "autoencoder":
            yield ((words, words) for _, words in records), reader
        elif task.kind == "skip_thought":
            yield (halves(words) for _, words in records), reader
        else:
            yield records, reader


def halves(words: Sequence[str]) -> WordPair:
    """Splits a sentence in the middle; if its number of words is odd, the first half has one word more.

    Example:

    >>> halves("a man sits down and reads it".split())
    (['a', 'man', 'sits', 'down'], ['and', 'reads', 'it'])
    """
    middle = (len(words) + 1) // 2
    return words[:middle], words[middle:]
