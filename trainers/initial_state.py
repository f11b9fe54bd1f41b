"""The model and the progress that a training run starts from: those of a new run, or of its last checkpoint."""

import keras

from keras_encdec.backend.replicas import set_generator_state
from keras_encdec.backend.training_step import StepCompilation
from keras_encdec.model_config import SOURCE_VOCABULARY, TARGET_VOCABULARY
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import build_model, model_class
from keras_encdec.models.symbols import from_symbols, to_symbols
from keras_encdec.models.translation_model import copy_weights
from keras_encdec.pruning.pruning_masks import PruningMasks, pruned_share
from keras_encdec.trained_model import TrainedModel
from keras_encdec.trainers.checkpoints import building
from keras_encdec.trainers.job import TrainingJob
from keras_encdec.trainers.resumption import Progress, TrainingState, load_checkpoint
from keras_encdec.trainers.settings_checks import (
    check_has_zeros,
    check_initial_settings,
    check_same_tasks,
    check_same_training,
)
from keras_encdec.trainers.task_training import PreparedTasks
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData


def new_state(
    job: TrainingJob,
    directory: ModelDirectory,
    step: StepCompilation,
    initial: ModelDirectory | None,
    others: PreparedTasks | None,
) -> TrainingState:
    """Builds and compiles the model of a new run.

    Args:
        job: TrainingJob.
        directory: ModelDirectory, with the vocabularies.
        step: StepCompilation. Whether the training step is compiled with XLA.
        initial: ModelDirectory, the model whose weights it begins with; `None` for random weights.
        others: PreparedTasks, for a model of several tasks; `None` for one task.
    """
    config = job.config
    words = len(directory.source_vocabulary), len(directory.target_vocabulary)
    with building(config.seed), job.replicas.building():
        if others:
            model = others.new_model(config)
        else:
            arguments = {**directory.character_counts(), **config.model_config.to_dict()}
            model = build_model(config.architecture, *words, **arguments, dtype=config.dtype_policy)
        if initial:
            if len(model.weights) == len(initial.model.weights):
                copy_weights(initial.model, model)
            else:  # a hybrid model, which has further weights for characters, begins with a word-based model
                from_symbols(model, {**to_symbols(model), **to_symbols(initial.model)})
        model.compile(
            _optimizer(config),
            config.reduction,
            config.clip_elements or None,
            config.label_smoothing,
            config.keep_words,
            jit_compile=step.jit_compile,
        )
        if config.keep_pruned or config.gradual_pruning:
            PruningMasks(model)
    return TrainingState(model, Progress())


def last_state(job: TrainingJob) -> TrainingState:
    """Loads the last checkpoint of a training run, and checks that its settings are those given now.

    Raises:
        ConfigurationError: a ValueError, which names the settings that differ.
        InputError: if no checkpoint can be loaded.
    """
    directory = ModelDirectory.load(job.folder, weights=False)
    check_same_tasks(job.tasks, directory.training)
    with building():
        state = load_checkpoint(job.folder, job.replicas)
    check_same_training(job.config, job.data, directory.training, state.model.get_config())
    # Checkpoints of the first versions lack PyTorch's generator state: a new seed then keeps dropout from repeating the
    # numbers of the first rounds. Later ones have it. `Restoration` sets it before the first update; a run that only
    # averages makes no update, and needs it set here.
    with building((job.config.seed + state.progress.updates) % 2**32):
        set_generator_state(state.progress.generator, job.replicas)
        return state


def load_initial_model(config: TrainingConfig, data: TrainingData) -> ModelDirectory:
    """Loads the model that a training run begins with, and checks that its settings are those of the run.

    Args:
        config: TrainingConfig, with an `initial_model`.
        data: TrainingData.

    Raises:
        ConfigurationError: a ValueError, for a setting that differs from the model's: a hyper-parameter, the direction
            or the tokenization.
        InputError: if the model cannot be loaded, or has no pruned weights to keep.
    """
    assert config.initial_model is not None
    directory = ModelDirectory.load(config.initial_model)
    is_same = type(directory.model) is model_class(config.architecture)
    known = TrainedModel.read(directory.path)
    check_initial_settings(config, data, known, directory.model.config if is_same else None)
    if config.keep_pruned:
        check_has_zeros(pruned_share(directory.model) > 0, directory.path)
    return directory


def with_vocabularies(data: TrainingData, initial: ModelDirectory) -> TrainingData:
    """Returns the data with the vocabularies of the initial model in place of new ones."""
    source = str(initial.path / SOURCE_VOCABULARY) if initial.model.has_source else None
    return data.replace(source_vocabulary=source, target_vocabulary=str(initial.path / TARGET_VOCABULARY))


def _optimizer(config: TrainingConfig) -> keras.optimizers.Optimizer:
    published = {"rho": 0.95, "epsilon": 1e-6} if config.optimizer == "adadelta" else {}
    arguments = {"learning_rate": config.learning_rate, "global_clipnorm": config.clip_norm or None, **published}
    return keras.optimizers.get({"class_name": config.optimizer, "config": arguments})
