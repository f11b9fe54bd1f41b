"""Writes a SavedModel of a trained model, with warm-up requests and a description."""

import itertools
import json
import os
import pathlib

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.types.experimental import ConcreteFunction
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2, regression_pb2

from keras_encdec import __version__
from keras_encdec.export.comparison import served_words
from keras_encdec.export.phrase_ids import BYTES_PER_TOKEN
from keras_encdec.export.served_model import ServedModel
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.export.versions import DESCRIPTION, RAW_TEXT, TOKENS, version_checksums
from keras_encdec.model_config import WEIGHTS
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.runtime.unfinished import temporary_folder
from keras_encdec.text import Vocabulary

# Numbers of tokens per phrase, and of pairs per request, in the warm-up.
LENGTHS, BATCHES = (1, 3, 7, 20), (1, 32)


def write_warmup(
    path: str | os.PathLike[str],
    signatures: dict[str, ConcreteFunction],
    vocabularies: dict[str, Vocabulary],
    max_tokens: int,
    model_name: str,
    tokenization: dict[str, bool] | None,
) -> None:
    """Writes warm-up requests for each signature, with several lengths and batch sizes.

    Args:
        path: the file to write.
        signatures: dict from name to concrete function.
        vocabularies: dict from input name to Vocabulary. Its most frequent words make up the phrases.
        max_tokens: int. Maximum number of tokens of a phrase.
        model_name: str. Name of the model on the server.
        tokenization: dict of arguments of `Tokenizer` if the version reads raw text, otherwise `None`.
    """
    words = {side: _single_tokens(vocabulary, tokenization) for side, vocabulary in vocabularies.items()}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for (name, function), length, batch in itertools.product(signatures.items(), LENGTHS, BATCHES):
            phrases = {side: _phrases(each, min(length, max_tokens), batch) for side, each in words.items()}
            log = prediction_log_pb2.PredictionLog()
            if name == "regress":
                request = log.regress_log.request
                _fill_regression(request, phrases)
            else:
                request = log.predict_log.request
                _fill_prediction(request, function, phrases, batch)
            request.model_spec.name, request.model_spec.signature_name = model_name, name
            writer.write(log.SerializeToString())


def _fill_regression(request: regression_pb2.RegressionRequest, phrases: dict[str, list[bytes]]) -> None:
    """Adds an example for each pair of phrases."""
    for pair in zip(*phrases.values(), strict=True):
        example = request.input.example_list.examples.add()
        for side, phrase in zip(phrases, pair, strict=True):
            example.features.feature[side].bytes_list.value.append(phrase)


def _fill_prediction(
    request: predict_pb2.PredictRequest, function: ConcreteFunction, phrases: dict[str, list[bytes]], batch: int
) -> None:
    """Adds the inputs of a function: phrases for strings, 1 for numbers."""
    for spec in function.structured_input_signature[0]:
        texts = spec.dtype == tf.string
        values = phrases.get(spec.name, phrases["source"]) if texts else [1] * batch
        request.inputs[spec.name].CopyFrom(tf.make_tensor_proto(values, spec.dtype))


def _single_tokens(vocabulary: Vocabulary, tokenization: dict[str, bool] | None) -> list[bytes]:
    """Lists frequent words that are one token each and not too long: a server exits if it refuses a warm-up request."""
    words = [word.encode("utf-8", "replace").decode() for word in vocabulary.words[:1000]]
    tokens = served_words(words, tokenization)
    encoded = [word.encode() for word, parts in zip(words, tokens, strict=True) if len(parts) == 1]
    return [word for word in encoded if len(word) < BYTES_PER_TOKEN] or [b""]


def _phrases(words: list[bytes], length: int, batch: int) -> list[bytes]:
    """Makes phrases from consecutive words."""
    cycle = itertools.cycle(words)
    return [b" ".join(itertools.islice(cycle, length)) for _ in range(batch)]


# A standard server lacks these operations: it neither compiles with XLA nor runs Python.
UNSERVED = ("Xla", "PyFunc", "EagerPyFunc")
# Operations of tensorflow-text. A server may be built without them.
TEXT = ("TFText", "NormalizeUTF8", "CaseFoldUTF8")


def unserved(path: str | os.PathLike[str], text: bool) -> list[str]:
    """Lists operations and attributes in the graph of a version that a standard TensorFlow Serving may lack or refuse.

    With `text`, operations of tensorflow-text are expected.
    """
    saved = saved_model_pb2.SavedModel.FromString((pathlib.Path(path) / "saved_model.pb").read_bytes())
    names = set()
    for graph in saved.meta_graphs:
        library = graph.graph_def.library.function
        nodes = [*graph.graph_def.node, *(node for function in library for node in function.node_def)]
        prefixes = UNSERVED if text else (*UNSERVED, *TEXT)
        names |= {node.op for node in nodes if node.op.startswith(prefixes)}
        names |= {name for owner in (*nodes, *library) for name in owner.attr if name.startswith("_Xla")}
    return sorted(names)


WARMUP = "tf_serving_warmup_requests"


def write_saved_model(
    directory: ModelDirectory,
    path: pathlib.Path,
    config: ServingConfig,
    tokenization: dict[str, bool] | None = None,
    model_name: str = "encdec",
) -> TranslationModel:
    """Writes a SavedModel with warm-up requests and a description.

    Args:
        directory: ModelDirectory, with its model, under Keras's TensorFlow backend.
        path: pathlib.Path of the folder.
        config: ServingConfig.
        tokenization: dict of arguments of `Tokenizer`, for a model that reads raw text. Defaults to `None`: the model
            reads tokens.
        model_name: str. Name of the model on the server. Defaults to `"encdec"`.

    Returns:
        TranslationModel in float32 with the weights as they are stored, see `rounded_model`.

    Raises:
        RuntimeError: if a server could not run the graph, because of an error in this package.
    """
    with temporary_folder() as assets:
        served = ServedModel(directory, assets, config, tokenization)
        tf.saved_model.save(served.resources, str(path), served.signatures)
    _name_regression(path)
    missing = unserved(path, text=tokenization is not None)
    if missing:
        raise RuntimeError(f"found {', '.join(missing)} in the graph, expected operations that a standard server has")
    extra = path / "assets.extra"
    extra.mkdir()
    vocabularies = dict(zip(("source", "target"), directory.user_vocabularies, strict=True))
    write_warmup(extra / WARMUP, served.signatures, vocabularies, config.max_tokens, model_name, tokenization)
    _describe(path, directory, config, tokenization)
    return served.rounded_model()


def _name_regression(path: pathlib.Path) -> None:
    """Sets the method name of the signature `regress` that a server's Regress API needs; TensorFlow sets "predict"."""
    file = path / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for graph in saved.meta_graphs:
        graph.signature_def["regress"].method_name = tf.compat.v1.saved_model.REGRESS_METHOD_NAME
    file.write_bytes(saved.SerializeToString(deterministic=True))
    # The fingerprint no longer matches the file.
    (file.parent / "fingerprint.pb").unlink(missing_ok=True)


def _describe(
    version: pathlib.Path, directory: ModelDirectory, config: ServingConfig, tokenization: dict[str, bool] | None
) -> None:
    description = {
        "made_by": f"keras-encdec {__version__}",
        "scores": "ln p(source | target)" if directory.reverse else "ln p(target | source)",
        "reads": TOKENS if tokenization is None else RAW_TEXT,
        "tokenization": tokenization,
        **config.to_dict(),
        "max_bytes": config.max_tokens * BYTES_PER_TOKEN,
        "model_weights": directory.checksums().get(WEIGHTS),
        "sha256": version_checksums(version),
    }
    path = version / "assets.extra" / DESCRIPTION
    path.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
