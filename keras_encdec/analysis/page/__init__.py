"""Writes the report's sections, draws their figures, and makes the HTML page that shows them."""

from keras_encdec.runtime.imports import check_extra

check_extra("analysis", "The report")
