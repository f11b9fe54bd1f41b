"""A language model with one hyper-parameter more than its base, for the test of what adding one takes."""

import dataclasses

import keras

from keras_encdec.architectures.configurations import RecurrentLanguageModelConfig
from keras_encdec.configuration import hyperparameter
from keras_encdec.models import RecurrentLanguageModel


@dataclasses.dataclass(frozen=True)
class ToyConfig(RecurrentLanguageModelConfig):
    window: int = hyperparameter(3, "Words that are looked back at.", minimum=1, published={"a paper": 5})


@keras.saving.register_keras_serializable(package="tests")
class ToyLanguageModel(RecurrentLanguageModel):
    config_class = ToyConfig
