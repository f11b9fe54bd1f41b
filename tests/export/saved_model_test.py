"""What an exported version consists of."""

import itertools
import json
import os
import shutil

import pytest
import tensorflow as tf
from export_folders import names, served
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from keras_encdec.export.saved_model import _phrases, _single_tokens
from keras_encdec.text import Vocabulary


def test_a_version_has_the_files_that_a_server_reads(exported):
    assert names(exported) == ["1", "batching_parameters.txt", "models.config"]
    files = {str(path.relative_to(exported / "1")) for path in (exported / "1").rglob("*") if path.is_file()}
    assert files == {
        "saved_model.pb",
        "variables/variables.index",
        "variables/variables.data-00000-of-00001",
        "assets/source.vocab",
        "assets/target.vocab",
        "assets.extra/tf_serving_warmup_requests",
        "assets.extra/keras_encdec.json",
    }
    description = json.loads((exported / "1" / "assets.extra" / "keras_encdec.json").read_text())
    assert description["max_tokens"] == 256 and description["max_bytes"] == 64 * 256


def test_the_graph_has_only_operations_of_a_standard_server(exported):
    saved = saved_model_pb2.SavedModel.FromString((exported / "1" / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = list(itertools.chain(graph.node, *(function.node_def for function in graph.library.function)))
    operations = {node.op for node in nodes}
    assert {"StringSplitV2", "LookupTableFindV2", "While"} <= operations
    for word in ("Xla", "PyFunc", "TFText", "NormalizeUTF8", "CaseFoldUTF8"):
        assert not [name for name in operations if word in name]
    attributes = {name for owner in (*nodes, *graph.library.function) for name in owner.attr}
    assert not [name for name in attributes if name.startswith("_Xla")]
    # The operations that TensorFlow registers without other packages, which a server has, too.
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


def test_the_warm_up_calls_every_signature_with_several_lengths(exported):
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


@pytest.mark.parametrize(("tokenization", "expected"), [(None, [b"l'", b"a"]), ({"lowercase": True}, [b"a"])])
def test_the_warm_up_has_only_words_of_one_token_that_are_not_too_long(tokenization, expected):
    words = _single_tokens(Vocabulary(["l'", "x" * 64, "a"]), tokenization)
    assert words == expected and _phrases(words, 2, 1) == [b" ".join((expected * 2)[:2])]
    assert _phrases(_single_tokens(Vocabulary(["x" * 64]), tokenization), 1, 1) == [b""]


def test_a_version_works_after_it_is_moved_and_without_its_model(exported, tmp_path):
    """The test moves a copy. The exported files do not contain the path of the model."""
    shutil.copytree(exported, tmp_path / "models")
    inputs = {"source": tf.constant(["w1 w2"]), "target": tf.constant(["w3 other"])}
    before = served(tmp_path / "models")["score"](**inputs)
    os.rename(tmp_path / "models", tmp_path / "moved")
    after = served(tmp_path / "moved")["score"](**inputs)
    assert float(before["log_prob"][0]) == float(after["log_prob"][0]) and int(after["unknown_count"][0]) == 1
    saved = (exported / "1" / "saved_model.pb").read_bytes()
    assert os.fsencode(exported.parent.parent) not in saved
