"""Draws the figures of the report with matplotlib."""

from keras_encdec.runtime.extras import check_extra

check_extra("analysis", "The report")
