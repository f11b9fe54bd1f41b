"""Makes the tests' own helpers importable, keeps TensorFlow quiet, and holds what many tests share."""

import atexit
import contextlib
import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

import hypothesis
import pytest

from keras_encdec.backend.startup import lean_imports
from keras_encdec.runtime.unfinished import temporary_folder
from keras_encdec.runtime.workers import STOP_SIGNALS


def lower_in_one_context():
    """JAX translates each program in a context of its own: making one takes longer than translating a small program."""
    from jax._src.interpreters import mlir

    make, own = mlir.make_ir_context, threading.local()

    def context():
        own.context = getattr(own, "context", None) or make()
        return own.context

    mlir.make_ir_context = context


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # PyTorch's waiting threads leave the processors to other tests
# The tests compile thousands of small programs and run each a few times: XLA's optimizer takes longer than it saves.
QUICK_COMPILATION = "xla_backend_optimization_level=0", "xla_cpu_parallel_codegen_split_count=1"
QUICK_COMPILATION += ("xla_cpu_use_fusion_emitters=false",)
# Flags that are set already come last, so that they win.
GIVEN_FLAGS = os.environ.get("XLA_FLAGS", "").split()
QUICK_FLAGS = [f"--{flag}" for flag in QUICK_COMPILATION if f"--{flag}" not in GIVEN_FLAGS]
os.environ["XLA_FLAGS"] = " ".join([*QUICK_FLAGS, *GIVEN_FLAGS])
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # one for all processes of the run, which inherit it
    CACHE = contextlib.ExitStack()  # a run that is killed leaves its folder to the next one, which removes it
    os.environ["JAX_COMPILATION_CACHE_DIR"] = CACHE.enter_context(temporary_folder())
    atexit.register(CACHE.close)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
# One processor for each process of the run: for tiny models, several threads take longer than one.
if hasattr(os, "sched_setaffinity") and "PYTEST_XDIST_WORKER" in os.environ:
    PROCESSORS = sorted(os.sched_getaffinity(0))
    NUMBER = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    os.sched_setaffinity(0, {PROCESSORS[NUMBER % len(PROCESSORS)]})
# Keras is imported as in commands: with scikit-learn, pandas and others that it finds, this takes nearly twice as long.
if "PYTEST_XDIST_WORKER" in os.environ:  # the process that hands out the tests needs no Keras
    with lean_imports():
        import keras
    if keras.backend.backend() == "jax":
        lower_in_one_context()
sys.path.insert(0, str(pathlib.Path(__file__).parent / "helpers"))
# Each run draws other examples, so that many runs try many: half of the usual number in each. An example may take as
# long as it takes, since the machine may be busy.
hypothesis.settings.register_profile("suite", max_examples=50, deadline=None)
hypothesis.settings.load_profile("suite")


REPORTS: list[pytest.TestReport] = []


def pytest_addoption(parser):
    parser.addoption("--record_durations", action="store_true", help="write tests/durations.json")


def pytest_collection_modifyitems(items):
    """Puts the tests of the longest files first, so that no process is left with one of them in the end."""
    from durations import ROOT, read_durations

    ranks = {ROOT / name: rank for rank, name in enumerate(read_durations())}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_runtest_logreport(report):
    REPORTS.append(report)


def pytest_sessionfinish(session):
    """Saves what `make coverage` has counted, because this process may be killed at its end; records durations."""
    coverage = sys.modules.get("coverage")
    if coverage and (counting := coverage.Coverage.current()):
        counting.save()
    # How long each file took: in the process that has the reports of all.
    if session.config.getoption("--record_durations") and not hasattr(session.config, "workerinput"):
        from durations import file_seconds, record_durations

        record_durations(file_seconds(REPORTS))


def pytest_collection_finish():
    """Excludes the backends' modules from Python's garbage collection, which saves a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture(scope="session")
def model_dirs(tmp_path_factory):
    """A folder with model directories: `forward`, `reverse`, and `swapped`, the reverse one's weights going forward."""
    from toy_models import SOURCE_WORDS, TARGET_WORDS, save_model

    folder = tmp_path_factory.mktemp("models")
    save_model(folder / "forward", SOURCE_WORDS, TARGET_WORDS, seed=1)
    save_model(folder / "reverse", TARGET_WORDS, SOURCE_WORDS, reverse=True, seed=2)
    save_model(folder / "swapped", TARGET_WORDS, SOURCE_WORDS, seed=2)
    return folder


@pytest.fixture(scope="session")
def forward_scorer(model_dirs):
    """A TextScorer of the model `forward`."""
    from keras_encdec.scoring import TextScorer

    return TextScorer(model_dirs / "forward")


@pytest.fixture(scope="session")
def reverse_scorer(model_dirs):
    """A TextScorer of the model `reverse`."""
    from keras_encdec.scoring import TextScorer

    return TextScorer(model_dirs / "reverse")


@pytest.fixture
def eager():
    """Nothing that TensorFlow runs in the test is traced: for tests that are not about training updates."""
    from eagerly import eagerly

    with eagerly():
        yield


@pytest.fixture
def uncompiled():
    """No search or scorer in the test is compiled for TensorFlow: for tests that do not depend on that."""
    from eagerly import uncompiled

    with uncompiled():
        yield


@pytest.fixture
def scores_here():
    """`verify_export` scores with the SavedModel in this process: for tests that are not about the other process."""
    from scores_here import scores_here

    with scores_here():
        yield


@pytest.fixture
def signals_obeyed():
    """No stop signal is ignored, neither here nor in processes that a test starts, as SIGHUP is under nohup."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number in STOP_SIGNALS:
        if before[number] == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number in STOP_SIGNALS:
        signal.signal(number, before[number])


@pytest.fixture
def out(tmp_path):
    """An empty folder for outputs."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def disk(tmp_path):
    """A function that mounts a disk of a given size, such as "100k"."""
    mounted = []

    def make(size):
        folder = tmp_path / size
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("mounting a small disk needs root")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # files of what failed may still be mapped


@pytest.fixture
def full_temporary_folder(disk, monkeypatch):
    """Makes a disk of a single page the folder for temporary files, and returns how an error about it begins."""
    monkeypatch.setattr(tempfile, "tempdir", str(disk("4k")))
    return rf"{tempfile.tempdir}: found the disk full when trying to write temporary files \(set TMPDIR"
