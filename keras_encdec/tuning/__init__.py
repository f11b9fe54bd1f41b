"""Tuning of feature weights, evaluation and significance tests."""

from typing import TYPE_CHECKING

from keras_encdec.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.tuning.corpus_metric import CorpusMetric as CorpusMetric
    from keras_encdec.tuning.decoder_tuning import DecoderTuning as DecoderTuning
    from keras_encdec.tuning.decoder_tuning import TuningRound as TuningRound
    from keras_encdec.tuning.decoder_tuning import tune_decoder as tune_decoder
    from keras_encdec.tuning.evaluate import Comparison as Comparison
    from keras_encdec.tuning.evaluate import Evaluation as Evaluation
    from keras_encdec.tuning.evaluate import SystemScore as SystemScore
    from keras_encdec.tuning.evaluate import evaluate as evaluate
    from keras_encdec.tuning.line_search import best_step as best_step
    from keras_encdec.tuning.line_search import line_scores as line_scores
    from keras_encdec.tuning.line_search import upper_envelopes as upper_envelopes
    from keras_encdec.tuning.mert import mert as mert
    from keras_encdec.tuning.mira import mira as mira
    from keras_encdec.tuning.nbest_features import NBestFeatures as NBestFeatures
    from keras_encdec.tuning.nbest_features import read_nbest_features as read_nbest_features
    from keras_encdec.tuning.pro import pro as pro
    from keras_encdec.tuning.significance import approximate_randomization as approximate_randomization
    from keras_encdec.tuning.significance import paired_bootstrap as paired_bootstrap
    from keras_encdec.tuning.tune import tune as tune
    from keras_encdec.tuning.tuned_weights import TunedWeights as TunedWeights
    from keras_encdec.tuning.tuned_weights import Tuning as Tuning

lazy_imports(__name__)
