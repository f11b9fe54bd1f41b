"""Makes the tests' own helpers importable, and keeps TensorFlow quiet."""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).parent / "helpers"))
