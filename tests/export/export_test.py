"""Exports: what they write, and what is told when they cannot."""

import itertools
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
import toy_models
from commands import fail, succeed
from eagerly import eagerly
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from keras_encdec.errors import InputError
from keras_encdec.export import export_model, move_stable_label, remove_version, verify_export
from keras_encdec.export.versions import new_version
from keras_encdec.models import RNNEncoderDecoder, published_optimizer

WORDS = [f"w{i}" for i in range(30)]


def names(folder):
    """All that is in a folder, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def models_config(folder):
    config = model_server_config_pb2.ModelServerConfig()
    return text_format.Parse((folder / "models.config").read_text(), config).model_config_list.config


def labels(folder):
    return dict(models_config(folder)[0].version_labels)


def served(folder, version=1):
    return tf.saved_model.load(str(folder / str(version))).signatures


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


def test_versions_are_numbered_upward_and_labels_follow(quick_export, model_dir, tmp_path):
    folder = tmp_path / "models"
    versions = [export_model(model_dir, folder, version=version).version for version in (None, 5, None)]
    assert versions == [1, 5, 6]
    assert names(folder) == ["1", "5", "6", "batching_parameters.txt", "models.config"]
    (config,) = models_config(folder)
    assert dict(config.version_labels) == {"stable": 1, "canary": 6}
    assert (config.name, config.base_path, config.model_platform) == ("encdec", str(folder), "tensorflow")
    assert config.model_version_policy.WhichOneof("policy_choice") == "all"

    move_stable_label(folder, "encdec", 6)
    assert labels(folder) == {"stable": 6, "canary": 6}
    with pytest.raises(InputError, match=r"found no version 7, expected one of those there \(1, 5, 6\)"):
        move_stable_label(folder, "encdec", 7)
    before = (folder / "5" / "saved_model.pb").stat().st_mtime_ns
    with pytest.raises(InputError, match="already"):
        export_model(model_dir, folder, version=5)
    assert (folder / "5" / "saved_model.pb").stat().st_mtime_ns == before
    assert not [name for name in names(folder) if name.startswith(".")]


def test_labels_of_versions_that_are_gone_are_dropped(quick_export, model_dir, export_command, tmp_path):
    """A server reads no further in a file with such a label."""
    folder = tmp_path / "models"
    for _ in range(3):
        export_model(model_dir, folder)
    move_stable_label(folder, "encdec", 3)
    # A number that was given to people is not given to another model; only folders are versions.
    shutil.rmtree(folder / "3")
    (folder / "9").write_text("")
    (folder / "007").mkdir()
    done = succeed(export_command(f"--model_dir={model_dir}", f"--export_dir={folder}"))
    assert "version 4, stable is none" in done.stderr and "stable is no version that is there" in done.stderr
    assert labels(folder) == {"canary": 4}
    shutil.rmtree(folder / "4")
    done = succeed(export_command(f"--export_dir={folder}", "--stable_version=2"))
    assert done.stderr == f"{folder / 'models.config'}: stable is version 2\n"
    assert labels(folder) == {"stable": 2}


def test_a_version_is_taken_away_with_its_labels(quick_export, model_dir, export_command, tmp_path):
    folder = tmp_path / "models"
    for _ in range(2):
        export_model(model_dir, folder)
    with pytest.raises(InputError, match="found version 1 to be the stable one"):
        remove_version(folder, "encdec", 1)
    succeed(export_command(f"--export_dir={folder}", "--remove_version=2"))
    assert names(folder) == ["1", "batching_parameters.txt", "models.config"] and labels(folder) == {"stable": 1}
    fail(export_command(f"--export_dir={folder}", "--remove_version=2"), 1, "found no version 2")


def test_a_label_that_is_moved_during_an_export_stays_where_it_was_moved(
    exported, quick_export, model_dir, monkeypatch, tmp_path
):
    folder, at_work, moved = tmp_path / "models", threading.Barrier(3), threading.Event()

    def write(directory, path, *arguments):
        shutil.copytree(exported / "1", path, dirs_exist_ok=True)
        if len(names(folder)) > 4:  # two versions, two files
            at_work.wait(60)
            moved.wait(60)

    monkeypatch.setattr("keras_encdec.export.saved_model.write_saved_model", write)
    for _ in range(2):
        export_model(model_dir, folder)
    results = []
    threads = [threading.Thread(target=lambda: results.append(export_model(model_dir, folder))) for _ in range(2)]
    for thread in threads:
        thread.start()
    at_work.wait(60)
    assert [name for name in names(folder) if name.startswith(".version")]
    move_stable_label(folder, "encdec", 2)
    moved.set()
    for thread in threads:
        thread.join()
    # Two exports at a time give two versions.
    assert sorted(result.version for result in results) == [3, 4] and {result.stable for result in results} == {2}
    assert names(folder) == ["1", "2", "3", "4", "batching_parameters.txt", "models.config"]
    assert labels(folder) == {"stable": 2, "canary": 4}


def test_a_folder_is_one_models(quick_export, model_dir, tmp_path):
    export_model(model_dir, tmp_path, model_name="phrases")
    before = (tmp_path / "models.config").read_text()
    for wrong in (
        lambda: move_stable_label(tmp_path, "encdec", 1),
        lambda: export_model(model_dir, tmp_path),
    ):
        with pytest.raises(InputError, match="'phrases' for this.*give --model_name=phrases"):
            wrong()
    assert (tmp_path / "models.config").read_text() == before and not (tmp_path / "2").exists()


def test_the_search_that_is_served_is_as_wide_as_asked_for(export_command, model_dir, tmp_path):
    flags = f"--model_dir={model_dir}", f"--export_dir={tmp_path}", "--beam_size=3", "--max_tokens=4"
    done = succeed(export_command(*flags))
    assert done.stderr == f"{tmp_path / '1'}: version 1, stable is 1\n"
    signatures = served(tmp_path)
    assert signatures["generate"](source=tf.constant(["w1"]))["target"].shape == (1, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 4"):
        signatures["generate"](source=tf.constant(["w1 " * 5]))
    description = json.loads((tmp_path / "1" / "assets.extra" / "keras_encdec.json").read_text())
    assert description["beam_size"] == 3 and description["max_tokens"] == 4


def test_what_the_user_wrote_into_the_servers_files_stays(quick_export, model_dir, tmp_path):
    (tmp_path / "batching_parameters.txt").write_text("max_batch_size { value: 7 }\n")
    (tmp_path / "models.config").write_text('model_config_list { config { name: "other" base_path: "/elsewhere" } }')
    export_model(model_dir, tmp_path, model_name="phrases")
    assert (tmp_path / "batching_parameters.txt").read_text() == "max_batch_size { value: 7 }\n"
    assert [(c.name, c.base_path) for c in models_config(tmp_path)] == [
        ("other", "/elsewhere"), ("phrases", str(tmp_path)),
    ]  # fmt: skip

    (tmp_path / "models.config").write_text("model_config_list [")
    with pytest.raises(InputError, match="models.config: .*ModelServerConfig"):
        export_model(model_dir, tmp_path)
    assert not (tmp_path / "2").exists()


def test_it_works_after_it_was_moved_and_without_its_model(exported, tmp_path):
    """The session's model stays; the copy knows nothing of it."""
    shutil.copytree(exported, tmp_path / "models")
    inputs = {"source": tf.constant(["w1 w2"]), "target": tf.constant(["w3 other"])}
    before = served(tmp_path / "models")["score"](**inputs)
    os.rename(tmp_path / "models", tmp_path / "moved")
    after = served(tmp_path / "moved")["score"](**inputs)
    assert float(before["log_prob"][0]) == float(after["log_prob"][0]) and int(after["unknown_count"][0]) == 1
    saved = (exported / "1" / "saved_model.pb").read_bytes()
    assert os.fsencode(exported.parent.parent) not in saved


ON_ANOTHER_BACKEND = """
import pathlib, sys
import keras, numpy as np
import keras_encdec.models, toy_models
assert "tensorflow" not in sys.modules, "TensorFlow was imported"
folder, words = pathlib.Path(sys.argv[1]), [f"w{i}" for i in range(30)]
model = keras.saving.load_model(folder / "trained.keras")
pairs = dict(np.load(folder / "pairs.npz"))
np.save(folder / "scores.npy", keras.ops.convert_to_numpy(model.score(pairs["source"], pairs["target"])))
model.fit(pairs, epochs=1, verbose=0)
assert "tensorflow" not in sys.modules, "TensorFlow was imported"
keras.config.set_dtype_policy("mixed_bfloat16")
toy_models.save_model(folder / "model", words, words)
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_models_go_to_another_backend_and_back(tmp_path, scores_here, backend):
    """One that TensorFlow trained scores the same there and trains on; one made there is exported by TensorFlow.

    In float32, although it was made in bfloat16; with no KERAS_BACKEND that would have to be set.
    """
    trained = RNNEncoderDecoder(30, 30, **toy_models.SIZES, reset_after=True)
    trained.compile(published_optimizer())
    pairs = {"source": np.array([[3, 4, 2], [5, 2, 0]]), "target": np.array([[6, 2], [7, 2]])}
    with eagerly():
        trained.fit(pairs, epochs=2, verbose=0)
    trained.save(tmp_path / "trained.keras")
    np.savez(tmp_path / "pairs.npz", **pairs)
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(pathlib.Path(toy_models.__file__).parent)}
    subprocess.run([sys.executable, "-c", ON_ANOTHER_BACKEND, str(tmp_path)], env=environment, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), trained.score(**pairs), atol=1e-4)
    if backend == "jax":  # what the command makes of the variable does not depend on its value
        flags = f"--model_dir={tmp_path / 'model'}", f"--export_dir={tmp_path / 'models'}"
        script = pathlib.Path(sys.executable).with_name("encdec-export")
        done = subprocess.run([script, *flags], env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr.startswith(str(tmp_path / "models" / "1")), done.stderr
    else:
        export_model(tmp_path / "model", tmp_path / "models")
    report = verify_export(tmp_path / "model", tmp_path / "models", made_pairs=50)
    assert [comparison.pairs for comparison in report.comparisons] == [50, 6]


def test_under_another_backend_it_says_what_is_expected(model_dir, monkeypatch, tmp_path):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    for wrong in (lambda: export_model(model_dir, tmp_path), lambda: verify_export(model_dir, tmp_path)):
        with pytest.raises(InputError, match="found Keras on jax, expected KERAS_BACKEND=tensorflow"):
            wrong()


KILLED = """
import sys, time
from keras_encdec.export.versions import new_version
from keras_encdec.models import RNNEncoderDecoder, published_optimizer
with new_version(sys.argv[1]) as made:
    (made.path / "saved_model.pb").write_text("half of it")
    print("at work", flush=True)
    time.sleep(600)
"""


def test_a_killed_export_leaves_no_version_and_the_next_tidies_up(quick_export, model_dir, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"at work\n"
    export_model(model_dir, tmp_path)
    assert [name for name in names(tmp_path) if name.startswith(".version")], "it was still being written"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [name for name in names(tmp_path) if name.startswith(".version")]
    assert export_model(model_dir, tmp_path).version == 2
    assert names(tmp_path) == ["1", "2", "batching_parameters.txt", "models.config"]


@pytest.mark.parametrize("there, number", [(1, -1), (1, 0), (1, 2**63), (2**63 - 1, None)])
def test_a_number_that_no_server_takes_is_no_version(tmp_path, there, number):
    (tmp_path / str(there)).mkdir()
    with pytest.raises(InputError, match="for the new version, expected 1 to 9223372036854775807; name another"):
        with new_version(tmp_path, number) as made:
            (made.path / "saved_model.pb").touch()
    assert os.listdir(tmp_path) == [str(there)]


def test_an_export_that_fails_leaves_nothing(export_command, model_dir, tmp_path):
    folder = tmp_path / "models"
    flags = f"--model_dir={model_dir}", f"--export_dir={folder}"
    fail(export_command(f"--model_dir={tmp_path / 'none'}", flags[1]), 1, "none", "no such directory")
    assert not folder.exists()
    (tmp_path / "file").write_text("")
    fail(export_command(flags[0], f"--export_dir={tmp_path / 'file'}"), 1, "found a file", "--export_dir")
    fail(export_command(flags[1]), 2, "--model_dir")
    fail(export_command(*flags, "--stable_version=1"), 2, "--model_dir and --stable_version")
    fail(export_command(flags[0], "--export_dir="), 2, "empty --export_dir")
    fail(export_command(*flags, f"--version={2**63}"), 2, "--version")
    for flag in ("version", "max_tokens", "beam_size", "top_k", "top_p"):
        fail(export_command(*flags, f"--{flag}=0"), 2, flag)
    assert not folder.exists()
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, hard))
    try:
        done = export_command(*flags)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    fail(done, 1, "could not be written")
    assert names(folder) == []


@pytest.mark.parametrize("what", ["other weights", "no graph"])
def test_a_version_that_does_not_score_as_the_model_is_not_published(exported, model_dir, monkeypatch, tmp_path, what):
    def spoilt(directory, path, *arguments):
        shutil.copytree(exported / "1", path, dirs_exist_ok=True)
        if what == "no graph":
            (path / "saved_model.pb").write_bytes(b"no graph")

    monkeypatch.setattr("keras_encdec.export.saved_model.write_saved_model", spoilt)
    folder = shutil.copytree(exported, tmp_path / "models")
    before = (folder / "models.config").read_bytes()
    model = toy_models.save_model(tmp_path / "other", WORDS, WORDS, seed=5) if what == "other weights" else model_dir
    expected = "found ln p .* expected the model's own" if what == "other weights" else "that does not score"
    with pytest.raises(InputError, match=f"{expected}.*; nothing was published: export again"):
        export_model(model, folder)
    assert names(folder) == ["1", "batching_parameters.txt", "models.config"]
    assert (folder / "models.config").read_bytes() == before


def test_a_language_model_is_not_served(tmp_path):
    model = toy_models.save_model(tmp_path / "model", [], WORDS, language_model=True)
    with pytest.raises(InputError, match="found a language model, expected one that has a source"):
        export_model(model, tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_raw_text_needs_the_operations_of_tensorflow_text_and_says_how_it_tokenizes(
    export_command, verify_command, quick_export, model_dir, monkeypatch, tmp_path
):
    pytest.importorskip("tensorflow_text")
    done = succeed(export_command(f"--model_dir={model_dir}", f"--export_dir={tmp_path / 'quick'}", "--raw_text"))
    assert "trained on tokens" in done.stderr and "case folded" in done.stderr
    monkeypatch.undo()
    trained = toy_models.save_model(tmp_path / "raw", WORDS, WORDS, tokenization={"lowercase": False})
    flags = f"--model_dir={trained}", f"--export_dir={tmp_path / 'models'}"
    assert "trained on tokens" not in succeed(export_command(*flags, "--raw_text")).stderr
    description = json.loads((tmp_path / "models" / "1" / "assets.extra" / "keras_encdec.json").read_text())
    assert description["reads"] == "raw text" and description["tokenization"] == {"lowercase": False}
    succeed(verify_command(*flags, "--pairs=20"))


def test_without_the_extra_it_names_it(model_dir, tmp_path):
    (tmp_path / "tensorflow_serving.py").write_text("raise ImportError(\"No module named 'tensorflow_serving'\")")
    flags = f"--model_dir={model_dir}", f"--export_dir={tmp_path}/m"
    command = [sys.executable, "-m", "keras_encdec.cli.export", *flags]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "pip install 'keras-encdec[serving]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "m").exists()
