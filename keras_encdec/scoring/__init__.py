"""Log-probabilities of pairs, many at a time, from a trained model."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.model_directory import ModelDirectory as ModelDirectory
    from keras_encdec.model_directory import load_model as load_model
    from keras_encdec.scoring.pair_scorer import PairScorer as PairScorer
    from keras_encdec.scoring.pair_scorer import PairScores as PairScores
    from keras_encdec.scoring.record_scorer import RecordScorer as RecordScorer
    from keras_encdec.scoring.record_scorer import write_scored_lines as write_scored_lines
    from keras_encdec.scoring.score_file import ScoreSummary as ScoreSummary
    from keras_encdec.scoring.score_file import score_file as score_file
    from keras_encdec.scoring.scorer import Scorer as Scorer
    from keras_encdec.scoring.scoring_options import ScoringOptions as ScoringOptions
    from keras_encdec.scoring.text_scorer import DryScorer as DryScorer
    from keras_encdec.scoring.text_scorer import TextScorer as TextScorer

lazy_imports(__name__)
