"""Begins a training with the weights and the vocabularies of a trained model."""

from typing import Any

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.model_config import SOURCE_VOCABULARY, TARGET_VOCABULARY, read_model_config
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import model_class
from keras_encdec.pruning.pruning_schemes import pruned_share
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

# Hyper-parameters that change no score.
_FREE = ("dropout", "initial_scale", "initial_stddev")


def load_initial_model(config: TrainingConfig, data: TrainingData) -> ModelDirectory:
    """Loads the model that a training begins with, and checks that it is one of the same settings.

    Args:
        config: TrainingConfig, with an `initial_model`.
        data: TrainingData.

    Raises:
        ConfigurationError: a ValueError, for other hyper-parameters, another direction or another kind of text.
        InputError: when the model cannot be loaded, or has no pruned weights to keep.
    """
    assert config.initial_model is not None
    directory = ModelDirectory.load(config.initial_model)
    directory.check_without_characters("a training with --initial_model")
    found: dict[str, Any] = {"architecture": config.architecture, **config.model_config.to_dict()}
    if type(directory.model) is model_class(config.architecture):
        expected = directory.model.config.to_dict()
    else:
        expected = {"architecture": read_model_config(directory.path)["architecture"]}
    found |= {"reverse": data.reverse, "tokenize": data.tokenize, "lowercase": data.lowercase}
    kinds = directory.tokenization
    expected |= {
        "reverse": directory.reverse,
        "tokenize": kinds is not None,
        "lowercase": bool((kinds or {}).get("lowercase", False)),
    }
    names = [name for name in expected if name not in _FREE and found[name] != expected[name]]
    if names:
        shown = ", ".join(f"{{{name}}}=%s" for name in names)
        values = [each[name] for each in (found, expected) for name in names]
        raise ConfigurationError(f"found {shown}, expected {shown} as in the model of {{initial_model}}", *values)
    if config.keep_pruned and not pruned_share(directory.model):
        raise InputError(
            "found no weight that is zero",
            "expected a pruned model with --keep_pruned",
            "prune it with encdec-prune, or drop --keep_pruned",
            directory.path,
        )
    return directory


def with_vocabularies(data: TrainingData, initial: ModelDirectory) -> TrainingData:
    """Returns the data with the vocabularies of the initial model in place of new ones.

    Raises:
        ConfigurationError: a ValueError, when other vocabularies are given.
    """
    given = [name for name in ("source_vocabulary", "target_vocabulary") if getattr(data, name)]
    if given:
        raise ConfigurationError(f"found {{{given[0]}}} with {{initial_model}}, which has its own; drop one of the two")
    source = str(initial.path / SOURCE_VOCABULARY) if initial.model.has_source else None
    return data.replace(source_vocabulary=source, target_vocabulary=str(initial.path / TARGET_VOCABULARY))
