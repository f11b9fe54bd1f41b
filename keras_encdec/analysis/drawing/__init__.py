"""The figures of the report, drawn by matplotlib."""

from keras_encdec.analysis.analysis_libraries import check_analysis_libraries

check_analysis_libraries()
