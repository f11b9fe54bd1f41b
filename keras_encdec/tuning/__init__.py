"""Weights of n-best lists, and what they gain: tuning, evaluation, significance."""

from typing import TYPE_CHECKING

from keras_encdec.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.tuning.corpus_metric import CorpusMetric as CorpusMetric
    from keras_encdec.tuning.evaluate import Comparison as Comparison
    from keras_encdec.tuning.evaluate import Evaluation as Evaluation
    from keras_encdec.tuning.evaluate import SystemScore as SystemScore
    from keras_encdec.tuning.evaluate import evaluate as evaluate
    from keras_encdec.tuning.significance import approximate_randomization as approximate_randomization
    from keras_encdec.tuning.significance import paired_bootstrap as paired_bootstrap

lazy_imports(__name__)
