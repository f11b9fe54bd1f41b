"""The models by name, their hyper-parameters and presets: what commands need to know before Keras is imported."""

from keras_encdec.architectures.architecture_registry import Architecture as Architecture
from keras_encdec.architectures.architecture_registry import architecture as architecture
from keras_encdec.architectures.architecture_registry import architecture_names as architecture_names
from keras_encdec.architectures.architecture_registry import register_architecture as register_architecture
from keras_encdec.architectures.configurations import RecurrentEncoderDecoderConfig as RecurrentEncoderDecoderConfig
from keras_encdec.architectures.configurations import RecurrentLanguageModelConfig as RecurrentLanguageModelConfig
from keras_encdec.architectures.configurations import RNNEncoderDecoderConfig as RNNEncoderDecoderConfig
from keras_encdec.architectures.presets import Preset as Preset
from keras_encdec.architectures.presets import load_preset as load_preset
from keras_encdec.architectures.presets import preset_names as preset_names
