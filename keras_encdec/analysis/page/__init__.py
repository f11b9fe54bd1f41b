"""Writes the sections of the report, and the HTML page that shows them."""

import importlib.util

if not importlib.util.find_spec("jinja2"):
    raise ImportError('The report needs jinja2, which is not installed: pip install "keras-encdec[analysis]".')
