"""encdec-export: what it writes, and what it says when it cannot."""

import itertools
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf
import toy_models
from commands import Command, fail, succeed
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

WORDS = [f"w{i}" for i in range(30)]


@pytest.fixture(scope="module")
def export():
    command = Command("keras_encdec.export.export", "encdec-export")
    yield command
    command.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return toy_models.save_model(tmp_path_factory.mktemp("toy") / "model", WORDS, WORDS)


@pytest.fixture(scope="module")
def exported(export, model, tmp_path_factory):
    """A folder with one exported version."""
    folder = tmp_path_factory.mktemp("exported") / "models"
    succeed(export(f"--model_dir={model}", f"--export_dir={folder}"))
    return folder


def names(folder):
    """All that is in a folder, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def models_config(folder):
    config = model_server_config_pb2.ModelServerConfig()
    return text_format.Parse((folder / "models.config").read_text(), config).model_config_list.config


def test_a_version_has_what_a_server_reads(exported):
    assert names(exported) == ["1", "batching_parameters.txt", "models.config"]
    files = {str(path.relative_to(exported / "1")) for path in (exported / "1").rglob("*") if path.is_file()}
    assert files == {
        "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001",
        "assets/source.vocab", "assets/target.vocab",
        "assets.extra/tf_serving_warmup_requests", "assets.extra/keras_encdec.json",
    }  # fmt: skip
    description = json.loads((exported / "1" / "assets.extra" / "keras_encdec.json").read_text())
    assert description["max_tokens"] == 256 and description["max_bytes"] == 64 * 256


def test_the_graph_asks_nothing_special_of_its_server(exported):
    saved = saved_model_pb2.SavedModel.FromString((exported / "1" / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = list(itertools.chain(graph.node, *(function.node_def for function in graph.library.function)))
    operations = {node.op for node in nodes}
    assert {"StringSplitV2", "LookupTableFindV2", "While"} <= operations
    for word in ("Xla", "PyFunc", "TFText", "NormalizeUTF8", "CaseFoldUTF8"):
        assert not [name for name in operations if word in name]
    attributes = {name for of in (*nodes, *graph.library.function) for name in of.attr}
    assert not [name for name in attributes if name.startswith("_Xla")]
    # The operations that Python registers without any further package, as a server has them.
    registered = set(tf.raw_ops.__dict__) | {"Placeholder", "NoOp", "Const"}
    assert not operations - registered


def test_signatures_share_their_first_dimension_and_name_their_method(exported):
    saved = saved_model_pb2.SavedModel.FromString((exported / "1" / "saved_model.pb").read_bytes())
    signatures = saved.meta_graphs[0].signature_def
    expected = {
        "score": ({"source", "target"}, {"log_prob", "token_count", "unknown_count"}),
        "serving_default": ({"source", "target"}, {"log_prob", "token_count", "unknown_count"}),
        "score_tokens": ({"source", "target"}, {"log_prob", "token_log_probs", "token_count", "unknown_count"}),
        "encode": ({"source"}, {"summary"}),
        "regress": ({"inputs"}, {"outputs"}),
        "generate": ({"source"}, {"target", "log_prob"}),
        "generate_greedy": ({"source"}, {"target", "log_prob"}),
        "sample": ({"source", "seed", "temperature"}, {"target", "log_prob"}),
    }
    types = {"seed": tf.int64, "temperature": tf.float32}
    for name, (inputs, outputs) in expected.items():
        assert set(signatures[name].inputs) == inputs and set(signatures[name].outputs) == outputs
        for side, tensor in signatures[name].inputs.items():
            assert tensor.dtype == types.get(side, tf.string).as_datatype_enum and len(tensor.tensor_shape.dim) == 1
        for tensor in (*signatures[name].inputs.values(), *signatures[name].outputs.values()):
            assert tensor.tensor_shape.dim[0].size == -1
        method = "regress" if name == "regress" else "predict"
        assert signatures[name].method_name == f"tensorflow/serving/{method}"


def test_warm_up_has_every_signature_in_several_lengths_and_it_runs(exported):
    path = exported / "1" / "assets.extra" / "tf_serving_warmup_requests"
    logs = [prediction_log_pb2.PredictionLog.FromString(r.numpy()) for r in tf.data.TFRecordDataset(str(path))]
    assert len(logs) < 1000
    functions, lengths = tf.saved_model.load(str(exported / "1")).signatures, {}
    for log in logs:
        if log.WhichOneof("log_type") == "regress_log":
            name = log.regress_log.request.model_spec.signature_name
            examples = log.regress_log.request.input.example_list.examples
            inputs = {"inputs": tf.constant([example.SerializeToString() for example in examples])}
            first = examples[0].features.feature["target"].bytes_list.value[0]
        else:
            name = log.predict_log.request.model_spec.signature_name
            inputs = {side: tf.constant(tf.make_ndarray(t)) for side, t in log.predict_log.request.inputs.items()}
            first = inputs.get("target", inputs.get("source")).numpy()[0]
        functions[name](**inputs)
        lengths.setdefault(name, set()).add((len(first.split()), len(next(iter(inputs.values())))))
    assert set(lengths) == set(functions)
    for found in lengths.values():
        assert len({length for length, _ in found}) > 2 and len({number for _, number in found}) > 1


def test_versions_are_numbered_upward_and_labels_follow(export, model, tmp_path):
    folder = tmp_path / "models"
    for flags in ((), ("--version=5",), ()):
        succeed(export(f"--model_dir={model}", f"--export_dir={folder}", *flags))
    assert names(folder) == ["1", "5", "6", "batching_parameters.txt", "models.config"]
    (config,) = models_config(folder)
    assert dict(config.version_labels) == {"stable": 1, "canary": 6}
    assert (config.name, config.base_path, config.model_platform) == ("encdec", str(folder), "tensorflow")
    assert config.model_version_policy.WhichOneof("policy_choice") == "all"

    succeed(export(f"--export_dir={folder}", "--stable_version=6"))
    assert dict(models_config(folder)[0].version_labels) == {"stable": 6, "canary": 6}
    fail(export(f"--export_dir={folder}", "--stable_version=7"), 1, "found no version 7", "(1, 5, 6)")
    # A number that was given to people is not given to another model; only folders are versions.
    shutil.rmtree(folder / "6")
    (folder / "9").write_text("")
    (folder / "007").mkdir()
    done = succeed(export(f"--model_dir={model}", f"--export_dir={folder}"))
    assert "version 7" in done.stderr and "stable is no version that is there" in done.stderr
    assert dict(models_config(folder)[0].version_labels) == {"stable": 6, "canary": 7}
    succeed(export(f"--export_dir={folder}", "--stable_version=5"))
    assert dict(models_config(folder)[0].version_labels) == {"stable": 5, "canary": 7}
    before = (folder / "5" / "saved_model.pb").stat().st_mtime_ns
    fail(export(f"--model_dir={model}", f"--export_dir={folder}", "--version=5"), 1, folder / "5", "already")
    assert (folder / "5" / "saved_model.pb").stat().st_mtime_ns == before
    assert not [name for name in names(folder) if name.startswith(".")]


def test_a_label_that_is_moved_during_an_export_stays_where_it_was_moved(export, model, tmp_path):
    folder = tmp_path / "models"
    for _ in range(2):
        succeed(export(f"--model_dir={model}", f"--export_dir={folder}"))
    processes = [export.installed(f"--model_dir={model}", f"--export_dir={folder}") for _ in range(2)]
    while not any(name.startswith(".version") for name in names(folder)):
        assert processes[0].poll() is None, "it was over before the label could be moved"
        time.sleep(0.001)
    succeed(export(f"--export_dir={folder}", "--stable_version=2"))
    for process in processes:
        assert "stable is 2" in process.communicate()[1] and process.returncode == 0
    # Two exports at a time give two versions.
    assert names(folder)[:4] == ["1", "2", "3", "4"]
    assert dict(models_config(folder)[0].version_labels) == {"stable": 2, "canary": 4}


def test_a_folder_is_one_models(export, model, tmp_path):
    succeed(export(f"--model_dir={model}", f"--export_dir={tmp_path}", "--model_name=phrases"))
    before = (tmp_path / "models.config").read_text()
    fail(export(f"--export_dir={tmp_path}", "--stable_version=1"), 1, "'phrases' for this", "--model_name=phrases")
    fail(export(f"--model_dir={model}", f"--export_dir={tmp_path}"), 1, "'phrases' for this", "--model_name=phrases")
    assert (tmp_path / "models.config").read_text() == before and not (tmp_path / "2").exists()


def test_the_search_that_is_served_is_as_wide_as_asked_for(export, model, tmp_path):
    succeed(export(f"--model_dir={model}", f"--export_dir={tmp_path}", "--beam_size=3", "--max_tokens=4"))
    signatures = tf.saved_model.load(str(tmp_path / "1")).signatures
    assert signatures["generate"](source=tf.constant(["w1"]))["target"].shape == (1, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 4"):
        signatures["generate"](source=tf.constant(["w1 " * 5]))


def test_what_the_user_wrote_into_the_servers_files_stays(export, model, tmp_path):
    (tmp_path / "batching_parameters.txt").write_text("max_batch_size { value: 7 }\n")
    (tmp_path / "models.config").write_text('model_config_list { config { name: "other" base_path: "/elsewhere" } }')
    succeed(export(f"--model_dir={model}", f"--export_dir={tmp_path}", "--model_name=phrases"))
    assert (tmp_path / "batching_parameters.txt").read_text() == "max_batch_size { value: 7 }\n"
    assert [(c.name, c.base_path) for c in models_config(tmp_path)] == [
        ("other", "/elsewhere"), ("phrases", str(tmp_path)),
    ]  # fmt: skip

    (tmp_path / "models.config").write_text("model_config_list [")
    fail(export(f"--model_dir={model}", f"--export_dir={tmp_path}"), 1, tmp_path / "models.config", "ModelServerConfig")
    assert not (tmp_path / "2").exists()


def test_it_works_after_it_was_moved_and_without_its_model(export, tmp_path):
    model = toy_models.save_model(tmp_path / "model", WORDS, WORDS)
    succeed(export(f"--model_dir={model}", f"--export_dir={tmp_path / 'models'}"))
    inputs = {"source": tf.constant(["w1 w2"]), "target": tf.constant(["w3 other"])}
    before = tf.saved_model.load(str(tmp_path / "models" / "1")).signatures["score"](**inputs)
    os.rename(model, tmp_path / "gone")
    os.rename(tmp_path / "models", tmp_path / "moved")
    after = tf.saved_model.load(str(tmp_path / "moved" / "1")).signatures["score"](**inputs)
    assert float(before["log_prob"][0]) == float(after["log_prob"][0]) and int(after["unknown_count"][0]) == 1


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_whatever_backend_trained_the_model_it_is_exported_by_tensorflow(export, tmp_path, backend):
    """And in float32, although it was trained in bfloat16; with no KERAS_BACKEND that would have to be set."""
    script = (
        "import pathlib, sys, keras, toy_models; keras.config.set_dtype_policy('mixed_bfloat16'); "
        "words = [f'w{i}' for i in range(30)]; toy_models.save_model(pathlib.Path(sys.argv[1]), words, words)"
    )
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(pathlib.Path(toy_models.__file__).parent)}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "model")], env=environment, check=True)
    environment["KERAS_BACKEND"] = backend
    done = export.installed(f"--model_dir={tmp_path / 'model'}", f"--export_dir={tmp_path / 'models'}", env=environment)
    assert done.communicate()[1].startswith(str(tmp_path / "models" / "1")) and done.returncode == 0
    verify = Command("keras_encdec.export.verify", "encdec-verify")
    flags = f"--model_dir={tmp_path / 'model'}", f"--export_dir={tmp_path / 'models'}", "--pairs=50"
    out, errors = verify.installed(*flags, env=environment).communicate()
    assert "exported: 50 pairs" in out, errors


def test_a_killed_export_leaves_no_version(export, model, tmp_path):
    folder = tmp_path / "models"
    process = export.installed(f"--model_dir={model}", f"--export_dir={folder}")
    while process.poll() is None and not list(folder.glob(".version*")):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it was over before it could be killed"
    assert not (folder / "1").exists()
    succeed(export(f"--model_dir={model}", f"--export_dir={folder}"))
    tf.saved_model.load(str(folder / "1"))


def test_an_export_that_fails_leaves_nothing(export, model, tmp_path):
    folder = tmp_path / "models"
    fail(export(f"--model_dir={tmp_path / 'none'}", f"--export_dir={folder}"), 1, "none", "no such directory")
    assert not folder.exists()
    (tmp_path / "file").write_text("")
    fail(export(f"--model_dir={model}", f"--export_dir={tmp_path / 'file'}"), 1, "found a file", "--export_dir")
    fail(export(f"--export_dir={folder}"), 2, "--model_dir")
    fail(export(f"--model_dir={model}", "--export_dir="), 2, "empty --export_dir")
    fail(export(f"--model_dir={model}", f"--export_dir={folder}", f"--version={2**63}"), 2, "--version")
    process = export.installed(
        f"--model_dir={model}", f"--export_dir={folder}", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (1 << 12, 1 << 12)
        ),
    )  # fmt: skip
    told = process.communicate()[1]
    assert process.returncode == 1 and "could not be written" in told and "Traceback" not in told
    assert names(folder) == []
    folder.rmdir()
    for flag in ("version", "max_tokens", "beam_size"):
        fail(export(f"--model_dir={model}", f"--export_dir={folder}", f"--{flag}=0"), 2, flag)


def test_raw_text_needs_the_operations_of_tensorflow_text_and_says_how_it_tokenizes(export, model, tmp_path):
    pytest.importorskip("tensorflow_text")
    done = succeed(export(f"--model_dir={model}", f"--export_dir={tmp_path}", "--raw_text"))
    assert "trained on tokens" in done.stderr and "case folded" in done.stderr
    description = json.loads((tmp_path / "1" / "assets.extra" / "keras_encdec.json").read_text())
    assert description["reads"] == "raw text" and description["tokenization"] == {"lowercase": True}
    trained = toy_models.save_model(tmp_path / "raw", WORDS, WORDS, tokenization={"lowercase": False})
    done = succeed(export(f"--model_dir={trained}", f"--export_dir={tmp_path}", "--raw_text"))
    assert "trained on tokens" not in done.stderr
    verify = Command("keras_encdec.export.verify", "encdec-verify")
    try:
        succeed(verify(f"--model_dir={trained}", f"--export_dir={tmp_path}", "--pairs=20"))
    finally:
        verify.close()


def test_without_the_extra_it_names_it(model, tmp_path):
    (tmp_path / "tensorflow_serving.py").write_text("raise ImportError(\"No module named 'tensorflow_serving'\")")
    command = [sys.executable, "-m", "keras_encdec.export.export", f"--model_dir={model}", f"--export_dir={tmp_path}/m"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "pip install 'keras-encdec[serving]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "m").exists()
