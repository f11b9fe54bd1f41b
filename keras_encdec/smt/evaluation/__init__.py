"""BLEU, chrF and TER of translations, and tests of whether differences are significant."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.smt.evaluation.alignment_error import AlignmentScore as AlignmentScore
    from keras_encdec.smt.evaluation.alignment_error import evaluate_alignments as evaluate_alignments
    from keras_encdec.smt.evaluation.corpus_metric import CorpusMetric as CorpusMetric
    from keras_encdec.smt.evaluation.evaluate import BaselineComparison as BaselineComparison
    from keras_encdec.smt.evaluation.evaluate import Evaluation as Evaluation
    from keras_encdec.smt.evaluation.evaluate import EvaluationOptions as EvaluationOptions
    from keras_encdec.smt.evaluation.evaluate import SystemScore as SystemScore
    from keras_encdec.smt.evaluation.evaluate import evaluate as evaluate
    from keras_encdec.smt.evaluation.significance import approximate_randomization as approximate_randomization
    from keras_encdec.smt.evaluation.significance import paired_bootstrap as paired_bootstrap

lazy_imports(__name__)
