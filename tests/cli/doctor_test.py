"""The command that examines the installation; what it finds is tested with `keras_encdec.diagnosis`."""

import json
import shutil
import subprocess
import sys

import pytest
from commands import fail, succeed
from in_process import in_process
from unprobed import unprobed

from keras_encdec.cli.doctor import COMMAND


@pytest.fixture
def quick():
    """No backend is started."""
    with unprobed():
        yield


@pytest.mark.usefixtures("quick")
def test_text_and_json_say_the_same(model_dirs, tmp_path):
    flags = f"--path={model_dirs / 'forward'}", f"--path={model_dirs / 'reverse'}", f"--folder={tmp_path}"
    done = succeed(in_process(COMMAND, *flags, f"--output={tmp_path / 'found.json'}"))
    for title in ("Versions\n  keras-encdec  ", "\nBackend\n", "\nMachine\n", "\nChecked\n", "\nProblems\n  none\n"):
        assert title in done.stdout, title
    assert "  import    1.5 s\n  devices   CPU\n  float32   50 GFLOP/s\n  bfloat16  100 GFLOP/s, 2 times" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["problems"] == [] and [path["kind"] for path in found["paths"]] == ["model directory"] * 2
    printed = json.loads(succeed(in_process(COMMAND, *flags, "--json")).stdout)
    assert printed["versions"] == found["versions"] and printed["paths"] == found["paths"]


@pytest.mark.usefixtures("quick")
def test_a_damaged_model_is_status_1(model_dirs, tmp_path):
    model = shutil.copytree(model_dirs / "forward", tmp_path / "model")
    (model / "best.keras").unlink()
    done = in_process(COMMAND, f"--path={model}")
    assert done.returncode == 1 and done.stderr == ""
    assert done.stdout.endswith(
        f"Problems\n  {model}: found no best.keras, expected the model's weights; train the model (encdec-train saves "
        "them after its first round).\n"
    )


def test_wrong_use_is_status_2():
    fail(in_process(COMMAND, "--backend=jax"), 2, "Unknown command line flag 'backend'")


def test_libraries_that_do_not_import_are_findings(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "served" / "1").mkdir(parents=True)
    for name in ("isal", "keras", "numpy", "tqdm", "tensorflow", "jax", "torch"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is broken')")
    command = [sys.executable, "-m", "keras_encdec.cli.doctor", f"--path={tmp_path / 'served'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == ""
    assert "cannot be imported (ImportError: keras is broken)" in done.stdout
    assert "served: found a library that cannot be imported (isal is broken); install it again.\n" in done.stdout


def test_libraries_that_every_command_needs_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "filelock.py").write_text("raise ImportError('filelock is broken')")
    command = [sys.executable, "-c", "from keras_encdec.cli.programs import doctor; doctor()"]
    done = subprocess.run(command, capture_output=True, text=True)
    fail(done, 1, "encdec-doctor: cannot start (filelock is broken); install keras-encdec again with its libraries.")


def test_a_broken_tensorflow_is_a_finding(tmp_path, monkeypatch):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('undefined symbol: _ZN10')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    command = [sys.executable, "-m", "keras_encdec.cli.doctor"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == ""
    assert "Computing with tensorflow\n  import  FAILED\n" in done.stdout
    assert "The backend tensorflow cannot be imported (ImportError: undefined symbol: _ZN10); install" in done.stdout
