"""Reproduces the paper's tables and figures from a trained model."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.analysis.gates import PhraseGates as PhraseGates
    from keras_encdec.analysis.gates import UnitGates as UnitGates
    from keras_encdec.analysis.gates import phrase_gates as phrase_gates
    from keras_encdec.analysis.page.score_sections import SampledTargets as SampledTargets
    from keras_encdec.analysis.page.score_sections import best_targets as best_targets
    from keras_encdec.analysis.page.score_sections import sampled_targets as sampled_targets
    from keras_encdec.analysis.report import ReportSummary as ReportSummary
    from keras_encdec.analysis.report import report as report
    from keras_encdec.analysis.report_options import ReportOptions as ReportOptions
    from keras_encdec.analysis.score_statistics import ScoreComparison as ScoreComparison
    from keras_encdec.analysis.score_statistics import perplexity as perplexity
    from keras_encdec.analysis.table_sample import Preferences as Preferences
    from keras_encdec.analysis.table_sample import TablePair as TablePair
    from keras_encdec.analysis.table_sample import TableSample as TableSample
    from keras_encdec.analysis.table_sample import read_preferences as read_preferences
    from keras_encdec.analysis.table_sample import read_table_sample as read_table_sample
    from keras_encdec.analysis.vectors import Vectors as Vectors
    from keras_encdec.analysis.vectors import phrase_vectors as phrase_vectors
    from keras_encdec.analysis.vectors import project as project
    from keras_encdec.analysis.vectors import word_vectors as word_vectors

lazy_imports(__name__)
