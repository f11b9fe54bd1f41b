"""What a model learned, as the paper shows it."""

from typing import TYPE_CHECKING

from keras_encdec.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.analysis.best_targets import best_targets as best_targets
    from keras_encdec.analysis.perplexity import perplexity as perplexity
    from keras_encdec.analysis.preferences import Preferences as Preferences
    from keras_encdec.analysis.preferences import read_preferences as read_preferences
    from keras_encdec.analysis.report import ReportOptions as ReportOptions
    from keras_encdec.analysis.report import ReportSummary as ReportSummary
    from keras_encdec.analysis.report import report as report
    from keras_encdec.analysis.sampled_targets import SampledTargets as SampledTargets
    from keras_encdec.analysis.sampled_targets import sampled_targets as sampled_targets
    from keras_encdec.analysis.score_comparison import ScoreComparison as ScoreComparison
    from keras_encdec.analysis.table_sample import TablePair as TablePair
    from keras_encdec.analysis.table_sample import TableSample as TableSample
    from keras_encdec.analysis.table_sample import read_table_sample as read_table_sample

lazy_imports(__name__)
