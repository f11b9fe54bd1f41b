"""Writes the report's sections, draws their figures, and makes the HTML page that shows them."""

import importlib.util

from keras_encdec.runtime.extras import check_extra

check_extra("analysis", "The report")
if not importlib.util.find_spec("jinja2"):
    raise ImportError('The report needs jinja2, which is not installed: pip install "keras-encdec[analysis]".')
