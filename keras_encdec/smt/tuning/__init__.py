"""Tuning of the feature weights of a log-linear model."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.smt.tuning.decoder_tuning import DecoderTuning as DecoderTuning
    from keras_encdec.smt.tuning.decoder_tuning import DecoderTuningOptions as DecoderTuningOptions
    from keras_encdec.smt.tuning.decoder_tuning import TuningRound as TuningRound
    from keras_encdec.smt.tuning.decoder_tuning import tune_decoder as tune_decoder
    from keras_encdec.smt.tuning.nbest_features import NBestFeatures as NBestFeatures
    from keras_encdec.smt.tuning.nbest_features import read_nbest_features as read_nbest_features
    from keras_encdec.smt.tuning.tune import TuningOptions as TuningOptions
    from keras_encdec.smt.tuning.tune import tune as tune
    from keras_encdec.smt.tuning.tuning_result import TunedWeights as TunedWeights
    from keras_encdec.smt.tuning.tuning_result import Tuning as Tuning
    from keras_encdec.smt.tuning.weight_searches import best_step as best_step
    from keras_encdec.smt.tuning.weight_searches import line_scores as line_scores
    from keras_encdec.smt.tuning.weight_searches import mert as mert
    from keras_encdec.smt.tuning.weight_searches import mira as mira
    from keras_encdec.smt.tuning.weight_searches import pro as pro
    from keras_encdec.smt.tuning.weight_searches import upper_envelopes as upper_envelopes

lazy_imports(__name__)
