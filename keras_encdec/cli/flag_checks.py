"""Checks of flags that several commands have."""

import os
import re

from absl import app


def check_feature_name(name):
    """Raises app.UsageError where --feature_name cannot be that of a dense feature in a Moses n-best list."""
    # The tuner takes a name with an underscore for that of a sparse feature.
    if not re.fullmatch(r"[^\s_=|]+", name):
        raise app.UsageError(f"found --feature_name={name!r}, expected a name without white space, _, = and |.")


def check_distinct_files(*paths):
    """Raises app.UsageError where two of some paths, each a str or `None`, are one file."""
    places = [os.path.realpath(path) for path in paths if path]
    if len(set(places)) < len(places):
        raise app.UsageError("found one file for two purposes, expected another for each input and output.")
