"""Log-probabilities of pairs, many at a time, from a trained model."""

from keras_encdec.scoring.model_directory import ModelDirectory as ModelDirectory
from keras_encdec.scoring.model_directory import load_model as load_model
from keras_encdec.scoring.scorer import Scorer as Scorer
from keras_encdec.scoring.text_scorer import DryTextScorer as DryTextScorer
from keras_encdec.scoring.text_scorer import TextScorer as TextScorer
