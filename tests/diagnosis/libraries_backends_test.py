"""Backends that work, and that are broken in several ways."""

import os

import keras
import pytest

from keras_encdec.diagnosis import libraries
from keras_encdec.diagnosis.libraries import probe_backend


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Writes the code of a library that is imported in place of the installed one."""

    def write(name, code):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)

    return write


def test_a_backend_that_works_is_measured():
    probe = probe_backend(os.environ.get("KERAS_BACKEND", "tensorflow"))
    assert probe.problems == () and probe.seconds > 0 and probe.devices
    assert set(probe.gflops) == {"float32", "bfloat16"} and min(probe.gflops.values()) > 0
    rows = dict(probe.rows())
    assert rows["float32"].endswith(" GFLOP/s") and rows["bfloat16"].endswith(" times the speed of float32")


def test_a_warning_of_a_library_is_not_a_problem(library, monkeypatch):
    library("jax", "import warnings\nwarnings.warn('renamed', DeprecationWarning)\nimport sys\nsys.exit(3)")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    assert "(it ended with status 3)" in probe_backend("jax").problems[0]


@pytest.mark.parametrize(
    "code, reason",
    [
        ("raise ImportError('libcuda.so.1: no such file')", "ImportError: libcuda.so.1: no such file"),
        ("raise ImportError('Traceback:\\n ...\\nOSError: no libhdf5\\nSee the guide.')", "OSError: no libhdf5"),
        ("raise RuntimeError('compiled for another NumPy')", "RuntimeError: compiled for another NumPy"),
        ("import os; os.abort()", "signal 6 ended it"),
        ("import sys; sys.exit(3)", "it ended with status 3"),
    ],
)
def test_a_backend_that_is_broken_is_a_finding(library, code, reason):
    library("jax", code)
    probe = probe_backend("jax")
    assert probe.seconds is None and dict(probe.rows()) == {"import": "FAILED"}
    assert probe.problems == (
        f"The backend jax cannot be imported ({reason}); install it again (pip install --force-reinstall keras jax), "
        "or set KERAS_BACKEND to another one.",
    )


def test_settings_that_keras_refuses_are_named_in_place_of_the_backend(monkeypatch, tmp_path):
    (tmp_path / "keras.json").write_text('{"floatx": "float99"}')
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    [problem] = probe_backend(keras.backend.backend()).problems
    assert problem.startswith(f"{tmp_path}/keras.json: found a setting that Keras refuses (")


def test_findings_before_a_crash_are_kept(library, monkeypatch):
    dying = 'import os; os.write(1, b\'["seconds", 2.5]\\n["devices", ["CPU"]]\\n["gflo\'); os.abort()'
    monkeypatch.setattr(libraries, "_START", dying)
    probe = probe_backend("jax")
    assert (probe.seconds, probe.devices, probe.gflops) == (2.5, ("CPU",), {})
    assert "The backend jax can be imported, but cannot compute (signal 6 ended it); " in probe.problems[0]


def test_what_python_prints_at_its_start_is_not_a_finding(monkeypatch):
    monkeypatch.setattr(libraries, "_START", "print('modules loaded'); print('[\"seconds\", 2.5]')")
    probe = probe_backend("jax")
    assert (probe.seconds, probe.problems) == (2.5, ())


def test_a_backend_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(libraries, "_START", "import time; time.sleep(60)")
    monkeypatch.setattr(libraries, "_TIMEOUT", 0.2)
    assert "(it did not end in " in probe_backend("jax").problems[0]
