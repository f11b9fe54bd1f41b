"""Trains a model from a configuration and data, and writes a model directory."""

import contextlib
import dataclasses
import os
import pathlib
from typing import NamedTuple

import keras

from keras_encdec.backend.devices import warn_if_slow
from keras_encdec.backend.distribution import find_replicas
from keras_encdec.backend.replicas import Compilation, check_batch_size
from keras_encdec.backend.task_steps import update_tasks_between
from keras_encdec.backend.training_step import StepCompilation, prepare_process_for_training
from keras_encdec.configuration import ConfigurationError
from keras_encdec.data import Batches, PreparedPairs
from keras_encdec.errors import InputError
from keras_encdec.model_config import CONFIG, WEIGHTS, record_remark, task_folder
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.pruning.pruning_masks import PruningMasks
from keras_encdec.runtime.files import check_path, is_url
from keras_encdec.runtime.imports import import_sacrebleu
from keras_encdec.runtime.progress_state import FINISHED
from keras_encdec.runtime.remote_folders import StagedFolder
from keras_encdec.runtime.settings_files import read_record
from keras_encdec.runtime.unfinished import directory_lock
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.callbacks import BLEU_ALTERNATIVE
from keras_encdec.trainers.checkpoints import Checkpoints
from keras_encdec.trainers.fitting import PROGRESS, end_recorded, fit
from keras_encdec.trainers.initial_state import last_state, load_initial_model, new_state, with_vocabularies
from keras_encdec.trainers.job import TrainingJob
from keras_encdec.trainers.model_card import CARD, ModelCard
from keras_encdec.trainers.preparation import prepare_pairs, unigram_perplexity, validation_batches
from keras_encdec.trainers.reporting import TrainingReporter, TrainingResult, TrainingRound
from keras_encdec.trainers.settings_checks import fixed_settings
from keras_encdec.trainers.task_training import prepare_tasks
from keras_encdec.trainers.tasks import TrainingTasks
from keras_encdec.trainers.training_config import VALIDATING, TrainingConfig, check_together
from keras_encdec.trainers.training_data import TrainingData
from keras_encdec.trainers.training_files import (
    LAST,
    PREPARED,
    begin_files,
    check_model_folder,
    check_not_packaged,
    data_before,
    has_checkpoint,
    update_settings,
)

# Files of a remote model directory in the order of uploading, after all others: the weights before their checksum, and
# the checkpoint after the best model that it refers to.
_UPLOADED_LAST = [WEIGHTS, CONFIG, LAST]


def train(
    config: TrainingConfig,
    data: TrainingData,
    model_dir: str | os.PathLike[str],
    resume: bool = False,
    reporter: TrainingReporter | None = None,
    tasks: TrainingTasks | None = None,
) -> TrainingResult:
    """Trains a model from pairs, or a language model from targets alone.

    Training proceeds in rounds. A round is the interval between two validations: after `round_updates` updates the
    model is validated, and a checkpoint is saved. Checkpoints are also saved within rounds, `checkpoint_minutes` apart.

    An interrupt, termination, hang-up or quit signal ends the training after the current update, with a checkpoint. The
    same call with `resume` continues from there; if the process was killed, it continues from the last checkpoint. On a
    CPU, the final weights and measurements are exactly those of a run without interruptions.

    Several devices may share each batch, see `keras_encdec.backend.replicas.Replicas`. In several processes, each
    process makes the same call, with one model directory on a disk that all of them share.

    Args:
        config: TrainingConfig: the model, and how it is trained.
        data: TrainingData: the pairs to train and validate on.
        model_dir: path of the model directory, which is created if it does not exist. Its files are the best and the
            last model, the vocabularies, the history of the rounds, the settings, and a model card, `README.md`. If the
            directory is remote, they are uploaded after each checkpoint.
        resume: bool. Whether to continue the run in the model directory. If it has no checkpoint, a new run begins; if
            it has already ended, nothing is trained. Defaults to `False`.
        reporter: TrainingReporter, which gets the progress. Defaults to `TrainingReporter()`, which prints it.
        tasks: TrainingTasks that share encoders and decoders; `data` is the data of the main task, see
            `TrainingTasks.training_data`. Updates, rounds and epochs are counted in updates of the main task. Defaults
            to `None`: one task.

    Raises:
        ConfigurationError: a ValueError, for settings that contradict one another or differ from those of the run to
            resume, and for a directory that already contains a model, unless `resume` is true.
        InputError: if an input file cannot be used, another process trains in the directory, the directory belongs to
            the package, the training diverges, the disk is full, or no checkpoint of the run to resume can be loaded.

    Example:

        config = TrainingConfig.from_preset("small", minutes=3)
        result = train(config, TrainingData(phrase_table="phrase-table.gz"), "model")
        print(result.best.val_perplexity)
    """
    check_together(TrainingConfig.of_type(config, "config"), TrainingData.of_type(data, "data"))
    check_path(model_dir, "a model directory")
    if tasks:
        tasks.check_together(config, data)
    if is_url(model_dir):
        check_model_folder(model_dir, resume)
        return _train_remotely(config, data, os.fspath(model_dir), resume, reporter, tasks)
    folder = pathlib.Path(model_dir)
    check_not_packaged(folder)  # before anything is written to it
    replicas = find_replicas(config.devices)
    if not replicas.is_chief:
        reporter = TrainingReporter(lambda line: None)
    with training_lock(folder) if replicas.is_chief else contextlib.nullcontext():
        return _train(TrainingJob(config, data, folder, reporter or TrainingReporter(), replicas, tasks), resume)


def _train_remotely(
    config: TrainingConfig,
    data: TrainingData,
    url: str,
    resume: bool,
    reporter: TrainingReporter | None,
    tasks: TrainingTasks | None,
) -> TrainingResult:
    """Trains in a temporary folder, whose files are uploaded after each checkpoint, at the end, and after errors."""
    replicas = find_replicas(config.devices)
    if replicas.processes > 1:
        raise ConfigurationError(
            "found {model_dir}=%s in %d processes, expected a directory on a disk that all of them share",
            url,
            replicas.processes,
        )
    staged = StagedFolder(url, existing=resume, last=_UPLOADED_LAST, after_errors=True)
    with staged as folder:
        job = TrainingJob(
            config, data, folder, reporter or TrainingReporter(), replicas, tasks, staged.upload_in_background
        )
        result = _train(job, resume)
    return dataclasses.replace(result, model_dir=url)


def training_lock(folder: str | os.PathLike[str]) -> contextlib.AbstractContextManager[None]:
    """Keeps other training runs out of a model directory; see `directory_lock`."""
    return directory_lock(folder, "training", "--model_dir")


class _Prepared(NamedTuple):
    """The model directory, with its vocabularies, and the pairs that a training run begins with."""

    directory: ModelDirectory
    pairs: PreparedPairs
    validation: Batches | None
    training_indices: range


def _train(job: TrainingJob, resume: bool) -> TrainingResult:
    config, data, folder, reporter, replicas = job.config, job.data, job.folder, job.reporter, job.replicas
    check_model_folder(folder, resume, job.tasks)  # while no other run can begin in it
    has_begun = has_checkpoint(folder)
    replicas.wait()  # before the first process writes anything
    if config.validation_bleu:
        import_sacrebleu(BLEU_ALTERNATIVE)  # raises at once if sacrebleu is not installed
    prepare_process_for_training()
    warn_if_slow(keras.DTypePolicy(config.dtype_policy).compute_dtype)
    # Loads the checkpoint before preparing the pairs, to report differing settings at once.
    state = last_state(job) if has_begun else None
    initial = load_initial_model(config, data) if config.initial_model and not has_begun else None
    prepared = _prepared(job, initial, has_begun)
    directory, pairs, validation, training_indices = prepared
    others = prepare_tasks(job, job.tasks, directory, has_begun) if job.tasks else None
    step = StepCompilation(config.jit_compile)
    widths = sorted(config.pad_to) if step.compiled else None
    batches = Batches(pairs, config.batch_size, training_indices, config.seed, widths)
    if state is None:
        state = new_state(job, directory, step, initial, others)
        reporter.built(state.model.count_params())
    # The sources of a language model are empty: only the shape of the targets is reported.
    compiling = reporter.compiling if config.has_source else lambda shapes: reporter.compiling(shapes[-1:])
    compilation = step.apply(state.model, compiling, replicas)
    if others:
        updates = others.updates(config, widths, state.progress.updates)
        update_tasks_between(state.model, updates, step, compilation, reporter.compiling)
    with contextlib.ExitStack() as ending:
        checkpoints, budget = fit(job, state, batches, validation, compilation, ending)
        result = _result(folder, checkpoints, budget, compilation)
        if (result.updates, len(result.rounds)) == (state.progress.updates, len(state.progress.rounds)):
            if replicas.is_chief:
                _complete(job, prepared, state.model, result, checkpoints)
            reporter.already_ended(result)
        elif replicas.is_chief:
            remark = _conclude(job, prepared, state.model, result, has_begun)
            reporter.ended(result)
            if remark:
                reporter.learned_little(remark)
            masks, share = PruningMasks.of(state.model), config.gradual_pruning
            if masks and share and result.signal is None and not masks.has_share(share, config.pruning_scheme):
                reporter.pruned_less(masks.share, share)
    return result


def _result(folder: pathlib.Path, checkpoints: Checkpoints, budget: Budget, compilation: Compilation) -> TrainingResult:
    return TrainingResult(
        folder,
        tuple(map(TrainingRound.from_dict, checkpoints.rounds)),
        TrainingRound.from_dict(checkpoints.best) if checkpoints.rounds else None,
        budget.updates_done,
        budget.seconds,
        budget.signal,
        compilation.shapes,
        compilation.seconds,
    )


def _complete(
    job: TrainingJob, prepared: _Prepared, model: TranslationModel, result: TrainingResult, checkpoints: Checkpoints
) -> None:
    """Writes the files that are missing if a run was killed between its last checkpoint and its end."""
    progress = job.folder / PROGRESS
    is_unfinished = progress.exists() and read_record(progress).get("state") != FINISHED
    if checkpoints.write_history() or is_unfinished or not (job.folder / CARD).exists():
        with end_recorded(job.folder, result.updates):
            _conclude(job, prepared, model, result, has_begun=True)


def _conclude(
    job: TrainingJob, prepared: _Prepared, model: TranslationModel, result: TrainingResult, has_begun: bool
) -> str | None:
    """Writes a resumed run's settings, and the model card; returns a remark if the model has learned little."""
    if has_begun:
        others = job.tasks.others if job.tasks else ()
        for task_dir in (job.folder, *(task_folder(job.folder, name) for name in others)):
            update_settings(task_dir, job.config)
    remark = _remark(prepared, model, result)
    record_remark(job.folder, remark)
    ModelCard(
        job.config,
        data_before(job.folder) or job.data,
        result,
        prepared.directory,
        weights=model.count_params(),
        pairs=len(prepared.training_indices),
        held_out=len(prepared.validation.indices) if prepared.validation else 0,
        remark=f"**Warning:** {remark}" if remark else "",
        tasks=job.tasks,
    ).write()
    return remark


def _prepared(job: TrainingJob, initial: ModelDirectory | None, has_begun: bool) -> _Prepared:
    """Prepares the pairs and the files of a new model in the first process; the others wait for it, and read them."""
    config, data, folder = job.config, job.data, job.folder
    if job.replicas.is_chief:
        given = dataclasses.replace(job, data=with_vocabularies(data, initial)) if initial else job
        directory, pairs = prepare_pairs(given, has_begun)
        validation, training_indices = validation_batches(config, data, directory, pairs, job.reporter)
        _check_validation(config, validation, folder)
        check_batch_size(job.replicas, min(config.batch_size, len(training_indices)))
        if not has_begun:
            tasks = {"tasks": job.tasks.fixed()} if job.tasks else {}
            begin_files(directory, config, data, {**fixed_settings(config, data), **tasks})
        job.replicas.wait()
        return _Prepared(directory, pairs, validation, training_indices)
    job.replicas.wait()
    if not (folder / PREPARED).exists():
        found = "found no pairs that the first process has prepared"
        raise InputError(found, "expected a directory that all machines share", "give another --model_dir", folder)
    directory, pairs = ModelDirectory.load(folder, weights=False), PreparedPairs(folder / PREPARED)
    return _Prepared(directory, pairs, *validation_batches(config, data, directory, pairs))


def _remark(prepared: _Prepared, model: TranslationModel, result: TrainingResult) -> str | None:
    """Returns a warning if the model is no better than the frequencies of its target words, otherwise `None`."""
    found = result.best.val_perplexity if result.best else None
    # The perplexity of a model that spells words also counts their characters.
    if found is None or not prepared.validation or model.decoder.speller is not None:
        return None
    vocabulary = prepared.directory.target_vocabulary
    unigrams = unigram_perplexity(prepared.pairs, prepared.training_indices, prepared.validation, vocabulary)
    if found < unigrams:
        return None
    return (
        "the model is no better than the frequencies of its target words: its held-out perplexity per token is "
        f"{found:,.1f}, theirs is {unigrams:,.1f}; train longer, on more pairs, or with another learning rate or "
        "larger initial weights."
    )


def _check_validation(config: TrainingConfig, validation: Batches | None, folder: pathlib.Path) -> None:
    for name in VALIDATING:
        if getattr(config, name) and not validation:
            found = "found too few pairs to hold out"
            raise InputError(found, "expected pairs to validate on", f"give --validation, or drop --{name}", folder)
