"""Stands in for the processes that `verify_export` starts to score with a SavedModel."""

import contextlib
import io
import runpy
import subprocess
import sys
import traceback
import types
from unittest import mock


def run_script(command, input, **others):
    """Returns what `subprocess.run` would return for a Python script, but runs the script in this process.

    In another process, importing TensorFlow would take longer than the scoring. A command that does not score with a
    SavedModel runs in another process as usual.
    """
    if command[-1] != "saved_model":
        return subprocess.run(command, input=input, **others)
    with (
        mock.patch.dict(sys.modules),  # the script takes Keras out of them
        mock.patch.object(sys, "argv", command[-2:]),
        mock.patch.object(sys, "stdin", io.StringIO(input)),
        contextlib.redirect_stdout(io.StringIO()) as output,
    ):
        try:
            runpy.run_path(command[-2], run_name="__main__")
        except Exception:
            return subprocess.CompletedProcess(command, 1, output.getvalue(), traceback.format_exc())
    return subprocess.CompletedProcess(command, 0, output.getvalue(), "")


def scores_here():
    """A context in which `verify_export` scores with the SavedModel in this process."""
    return mock.patch("keras_encdec.export.verification.subprocess", types.SimpleNamespace(run=run_script))
