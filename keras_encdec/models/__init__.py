"""Models built from the layers, and their weights by symbol."""

from keras_encdec.architectures.architecture_registry import Preset as Preset
from keras_encdec.architectures.architecture_registry import load_preset as load_preset
from keras_encdec.architectures.architecture_registry import preset_names as preset_names
from keras_encdec.models.contract import Decoder as Decoder
from keras_encdec.models.contract import Encoder as Encoder
from keras_encdec.models.language_model import FeedForwardLanguageModel as FeedForwardLanguageModel
from keras_encdec.models.likelihood_model import LikelihoodModel as LikelihoodModel
from keras_encdec.models.log_probs import SPECIAL_IDS as SPECIAL_IDS
from keras_encdec.models.multi_task_model import MultiTaskModel as MultiTaskModel
from keras_encdec.models.multi_task_model import TaskParts as TaskParts
from keras_encdec.models.recurrent_encoder_decoder import RecurrentEncoderDecoder as RecurrentEncoderDecoder
from keras_encdec.models.recurrent_encoder_decoder import RecurrentLanguageModel as RecurrentLanguageModel
from keras_encdec.models.rnn_encoder_decoder import RNNEncoderDecoder as RNNEncoderDecoder
from keras_encdec.models.rnn_encoder_decoder import published_optimizer as published_optimizer
from keras_encdec.models.symbols import from_symbols as from_symbols
from keras_encdec.models.symbols import to_symbols as to_symbols
from keras_encdec.models.translation_model import EncoderDecoder as EncoderDecoder
from keras_encdec.models.translation_model import TranslationModel as TranslationModel
from keras_encdec.models.translation_model import build_model as build_model
from keras_encdec.models.translation_model import model_class as model_class
from keras_encdec.models.translation_model import register_model as register_model
