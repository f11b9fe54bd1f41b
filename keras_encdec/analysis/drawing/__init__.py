"""The figures of the report, drawn by matplotlib."""

from keras_encdec.runtime.extras import check_extra

check_extra("analysis", "The report")
