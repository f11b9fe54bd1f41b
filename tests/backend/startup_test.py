"""What a process does before and after it imports Keras."""

import concurrent.futures
import functools
import importlib
import json
import operator
import os
import pickle
import re
import runpy
import subprocess
import sys
import tempfile
import time
import types

import pytest

from keras_encdec.backend import startup
from keras_encdec.backend.startup import (
    KerasWork,
    _LateDynamo,
    cache_folder,
    configured_backend,
    keep_compiled_programs,
    lean_imports,
    settings_file,
)
from keras_encdec.runtime import control_groups
from keras_encdec.runtime.workers import THREAD_VARIABLES

SCRIPT = """
import json, os, sys
from keras_encdec.backend.startup import import_keras
import_keras()
names = ["IPython", "matplotlib", "pandas", "sklearn", "jax", "torch", "torch._dynamo", "tensorflow"]
imported = [name for name in names if name in sys.modules]
import keras
from keras import ops
total = float(ops.sum(ops.ones(3)))
import matplotlib
print(json.dumps([imported, total, os.environ.get("JAX_COMPILATION_CACHE_DIR")]))
"""


def test_work_of_another_process_is_imported_only_when_it_is_opened(tmp_path, monkeypatch):
    (tmp_path / "loads_a_model.py").write_text("def load(path):\n    return path.upper\n")
    monkeypatch.syspath_prepend(tmp_path)
    import loads_a_model

    pickled = pickle.dumps(KerasWork(functools.partial(loads_a_model.load, "model"), own_process=False))
    monkeypatch.delitem(sys.modules, "loads_a_model")
    work = pickle.loads(pickle.dumps(pickle.loads(pickled)))  # a worker that is started again gets it once more
    assert "loads_a_model" not in sys.modules
    assert work()() == "MODEL"
    assert "loads_a_model" in sys.modules


def test_work_in_this_process_may_hold_what_cannot_be_pickled():
    assert KerasWork(lambda: operator.neg, own_process=False)()(2) == -2


def test_a_command_imports_the_backend_and_no_optional_library(tmp_path):
    """In a separate process, with the backend that the tests run on; later imports work as usual."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "TF_XLA_"))}
    environment |= {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    imported, total, cache = json.loads(done.stdout)
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    assert imported == [backend] and total == 3.0
    if backend == "jax":
        assert cache.startswith(str(tmp_path / "keras-encdec")) and os.listdir(cache)
    else:
        folders = {"tensorflow": ["keras-encdec"], "torch": []}  # PyTorch compiles nothing here
        assert cache is None and os.listdir(tmp_path) == folders[backend]


@pytest.mark.parametrize(("limit", "threads"), [("max 100000", {}), ("100000 100000", {"NPROC": "1"})])
def test_a_container_with_a_limit_gets_no_more_threads_than_may_run(limit, threads, monkeypatch, tmp_path):
    given = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    monkeypatch.setattr(os, "environ", given | {"OMP_NUM_THREADS": "7"})
    monkeypatch.setattr(control_groups, "_CGROUPS", tmp_path)
    monkeypatch.setattr(control_groups, "_PROC", tmp_path)
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    startup.import_keras()
    assert os.environ["OMP_NUM_THREADS"] == "7"  # the user's choice
    assert {name: value for name, value in os.environ.items() if name == "NPROC"} == threads


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files in memory")
def test_messages_are_shown_without_a_temporary_directory(monkeypatch, capfd, tmp_path):
    with monkeypatch.context() as patch:  # until capfd needs a file
        patch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        with startup.quietly():
            os.write(2, b"2026-01-01 00:00:00.000000: I tensorflow/core\nwrong\n")
    assert capfd.readouterr().err == "wrong\n"


def test_threads_leave_the_standard_error_as_it_was(capfd):
    def hush(seconds):
        with startup.quietly():
            time.sleep(seconds)

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        list(threads.map(hush, [0.2, 0.4]))
    os.write(2, b"wrong\n")
    assert capfd.readouterr().err == "wrong\n"


def test_hidden_libraries_are_imported_afterwards(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_BACKEND", "none of ours")
    monkeypatch.setattr("keras_encdec.backend.startup._OPTIONAL", ("optional_library", "json"))
    (tmp_path / "optional_library.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyError), lean_imports():
        with pytest.raises(ImportError):
            importlib.import_module("optional_library")
        assert importlib.import_module("json") is json  # as it was imported before
        raise KeyError
    assert importlib.import_module("optional_library").__file__ == str(tmp_path / "optional_library.py")


def test_triton_is_imported_with_pytorch_before_tensorflow_can_be(monkeypatch):
    found = []
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    monkeypatch.setattr(startup, "import_triton", lambda: found.append("triton"))
    with lean_imports():
        assert found == ["triton"]


def test_functions_are_marked_for_the_compiler_when_there_is_one(monkeypatch):
    late, marked = _LateDynamo("torch._dynamo"), []
    compiler = types.ModuleType("torch._dynamo")
    compiler.disable = lambda function, **options: marked.append((function, options)) or function
    compiler.other = 5
    monkeypatch.setitem(sys.modules, "torch._dynamo", late)

    def double(number):
        return 2 * number

    calls = [late.disable(double), late.disable()(double), late.disable(recursive=False)(double)]
    assert [call(3) for call in calls] == [6, 6, 6] and not marked
    monkeypatch.setitem(sys.modules, "torch._dynamo", compiler)
    assert [call(3) for call in calls] == [6, 6, 6]
    assert marked == [(double, {}), (double, {}), (double, {"recursive": False})]
    assert late.other == 5


def test_the_backend_is_that_of_keras(monkeypatch, tmp_path):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert configured_backend() == "tensorflow"
    for text, expected in (('{"backend": "jax"}', "jax"), ("[]", "tensorflow"), ("{", "tensorflow")):
        (tmp_path / "keras.json").write_text(text)
        assert configured_backend() == expected
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert configured_backend() == "torch"


@pytest.mark.parametrize("home", ["/no/such/home", "", None])
def test_the_settings_are_those_of_keras_without_a_home_directory(home, monkeypatch):
    """As for the user of a service, or of a container that runs with any user id."""
    for name in ("HOME", "KERAS_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    else:  # and the user has no entry in /etc/passwd
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
        assert cache_folder() is None
        keep_compiled_programs()
    from keras.src.backend import config

    monkeypatch.setattr(os, "makedirs", lambda path: None)
    assert str(settings_file()) == runpy.run_path(config.__file__)["_config_path"]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ('{"floatx": "float99"}', "found a setting that Keras refuses .*floatx=float99\\), "),
        ('["torch"]', "found list in JSON, "),
    ],
)
def test_settings_that_keras_refuses_are_named_with_their_file(settings, found, tmp_path):
    (tmp_path / "keras.json").write_text(settings)
    code = "from keras_encdec.backend.startup import import_keras; import_keras()"
    environment = {**os.environ, "KERAS_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert re.search(
        f"InputError: {tmp_path}/keras.json: {found}expected settings of Keras; correct it or delete it", done.stderr
    )


def test_the_message_of_a_library_that_ends_the_process_is_shown(tmp_path):
    """As of oneMKL, which PyTorch loads."""
    (tmp_path / "torch.py").write_text("import os\nos.write(2, b'FATAL ERROR')\nos._exit(2)")
    code = "from keras_encdec.backend.startup import import_keras; import_keras()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "KERAS_BACKEND": "torch"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "FATAL ERROR")


def test_too_little_memory_for_the_backend_is_not_a_missing_backend(monkeypatch):
    def fail_to_load(name):
        raise ImportError("libtorch_cpu.so: failed to map segment from shared object")

    monkeypatch.setattr(importlib, "import_module", fail_to_load)
    with pytest.raises(MemoryError, match="libtorch_cpu.so: failed to map segment"):
        startup.import_keras()


def test_a_relative_path_of_the_cache_is_ignored(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    given = cache_folder()
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert given.is_absolute() and given == cache_folder()


def test_the_users_settings_of_the_cache_are_kept(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("JAX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", dict(os.environ, XDG_CACHE_HOME=str(tmp_path), KERAS_BACKEND="jax"))
    os.environ[startup.CACHE_SWITCH] = "0"
    keep_compiled_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ and os.listdir(tmp_path) == []
    del os.environ[startup.CACHE_SWITCH]
    os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] = "7"
    keep_compiled_programs()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(cache_folder())
    assert os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] == "7"
    first = cache_folder()
    os.environ["XLA_FLAGS"] = "--xla_cpu_max_isa=AVX2"  # programs of another kind of processor
    assert cache_folder().parent == first.parent and cache_folder() != first
    os.environ["JAX_COMPILATION_CACHE_DIR"] = "/elsewhere"
    keep_compiled_programs()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "/elsewhere"


def test_tensorflow_keeps_programs_in_a_folder_of_bounded_size(monkeypatch, tmp_path):
    environment = {"XDG_CACHE_HOME": str(tmp_path), "KERAS_BACKEND": "tensorflow", "TF_XLA_FLAGS": "--flag=1"}
    monkeypatch.setattr(os, "environ", {**os.environ, **environment})
    monkeypatch.setattr(startup, "MAX_CACHE_BYTES", 25)
    folder = cache_folder()
    folder.mkdir(parents=True)
    for age in range(4):
        (folder / str(age)).write_bytes(b"x" * 10)
        os.utime(folder / str(age), (1000 - age, 1000 - age))
    (folder / "empty.pb").write_bytes(b"")  # as after a power failure
    (folder / "new.pb.tmp").write_bytes(b"")  # another process is writing it
    keep_compiled_programs()
    assert os.environ["TF_XLA_FLAGS"] == f"--flag=1 --tf_xla_persistent_cache_directory={folder}"
    assert sorted(os.listdir(folder)) == ["0", "1", "new.pb.tmp"] and cache_folder() == folder
    os.environ["TF_XLA_FLAGS"] = "--tf_xla_persistent_cache_directory=/elsewhere"
    keep_compiled_programs()
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_persistent_cache_directory=/elsewhere"


def test_tensorflow_keeps_no_programs_on_a_full_disk(tmp_path):
    """It would fail where it cannot write a program."""
    environment = {"XDG_CACHE_HOME": str(tmp_path), "KERAS_BACKEND": "tensorflow", "TF_XLA_FLAGS": ""}
    code = """
import os, resource
from keras_encdec.backend.startup import keep_compiled_programs
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
keep_compiled_programs()
print(os.environ["TF_XLA_FLAGS"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"
