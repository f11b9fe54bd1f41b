"""Fixtures that the tests of exports, of servers and of the client share."""

import contextlib
import functools
import shutil

import pytest
import toy_models
from in_process import in_process
from searchless import searchless
from serving_process import ServingProcess

WORDS = [f"w{i}" for i in range(30)]


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    """A model directory of 30 source words and the same target words."""
    return toy_models.save_model(tmp_path_factory.mktemp("toy") / "model", WORDS, WORDS)


@pytest.fixture(scope="session")
def exported(model_dir, tmp_path_factory):
    """A folder with one exported version of it, not to be changed."""
    from keras_encdec.export import export_model

    folder = tmp_path_factory.mktemp("exported") / "models"
    export_model(model_dir, folder)
    return folder


@pytest.fixture(scope="session")
def scores_only(model_dir, tmp_path_factory):
    """A folder with one exported version of it that scores and does not search: a server starts sooner with it."""
    from keras_encdec.export import export_model

    folder = tmp_path_factory.mktemp("scores_only") / "models"
    with searchless():
        export_model(model_dir, folder)
    return folder


@pytest.fixture
def quick_export(scores_only, monkeypatch):
    """Exports in this process write copies of one version: for tests that are not about the graph."""

    def copy(directory, path, *arguments):
        shutil.copytree(scores_only / "1", path, dirs_exist_ok=True)

    monkeypatch.setattr("keras_encdec.export.saved_model.write_saved_model", copy)
    monkeypatch.setattr("keras_encdec.export.exporting.check_version", lambda *arguments: None)


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """The directory of another toy model, and its served functions."""
    from toy_served_model import served

    return served(tmp_path_factory.mktemp("served"))


@pytest.fixture
def no_search():
    """Models made in the test have no signatures of samplers."""
    with searchless():
        yield


@pytest.fixture(scope="session")
def peer(scores_only):
    """Starts a peer of TensorFlow Serving with the files of `scores_only`, with or without batching."""
    with contextlib.ExitStack() as stack:
        running = {}

        def start(batching=False):
            if batching not in running:
                flags = {"model_config_file": scores_only / "models.config", "rest_api_port": 0}
                flags["allow_version_labels_for_unavailable_models"] = True
                if batching:
                    flags |= {"enable_batching": True}
                    flags |= {"batching_parameters_file": scores_only / "batching_parameters.txt"}
                # Large blocks go back to the system at once: what stays is what is kept.
                with pytest.MonkeyPatch.context() as environment:
                    environment.setenv("MALLOC_MMAP_THRESHOLD_", "1000000")
                    running[batching] = stack.enter_context(contextlib.closing(ServingProcess(**flags)))
            return running[batching]

        yield start


@pytest.fixture(scope="session")
def export_command():
    from keras_encdec.cli.export import COMMAND

    return functools.partial(in_process, COMMAND)


@pytest.fixture(scope="session")
def client_command():
    from keras_encdec.cli.client import COMMAND

    return functools.partial(in_process, COMMAND)


@pytest.fixture(scope="session")
def verify_command():
    from keras_encdec.cli.verify import COMMAND

    return functools.partial(in_process, COMMAND)


@pytest.fixture
def model():
    """The model of a fake server, which records its requests."""
    from fake_prediction_server import FakeModel

    return FakeModel()


@pytest.fixture
def servers(model):
    """The addresses of a fake server of the model by protocol."""
    from fake_prediction_server import serving

    with serving(model) as addresses:
        yield addresses


@pytest.fixture(params=["grpc", "rest"])
def client(request, client_command, servers):
    """The command with the address of the fake server, by either protocol."""

    def run(*flags, start=client_command):
        return start(f"--server={servers[request.param]}", *flags)

    return run


@pytest.fixture
def many(tmp_path):
    """A table of 100 lines, each with different words."""
    path = tmp_path / "many"
    path.write_text("".join(f"s{i} ||| t{i} ||| 0.5\n" for i in range(1, 101)))
    return path
