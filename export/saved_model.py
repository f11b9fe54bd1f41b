"""A SavedModel of a trained model, and what a server reads beside it."""

import json
import pathlib
import tempfile
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_encdec import __version__
from keras_encdec.export.description import DESCRIPTION, RAW_TEXT, TOKENS
from keras_encdec.export.graph_check import unserved
from keras_encdec.export.phrase_ids import BYTES_A_TOKEN
from keras_encdec.export.served_model import ServedModel
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.export.warmup import write_warmup
from keras_encdec.model_directory import ModelDirectory

WARMUP = "tf_serving_warmup_requests"


def write_saved_model(
    directory: ModelDirectory,
    path: pathlib.Path,
    config: ServingConfig | None = None,
    tokenization: dict[str, Any] | None = None,
    model_name: str = "encdec",
) -> None:
    """Writes a SavedModel with warm-up requests and a description.

    Args:
        directory: ModelDirectory, with its model, under Keras's TensorFlow backend.
        path: pathlib.Path of the folder.
        config: ServingConfig. Defaults to `None`: that of the defaults.
        tokenization: dict of arguments of `Tokenizer`, for a model that reads raw text. Defaults to `None`: it reads
            tokens.
        model_name: str. What the server calls the model. Defaults to `"encdec"`.

    Raises:
        RuntimeError: when the graph could not be served, which is an error in this package.
    """
    config = config or ServingConfig()
    with tempfile.TemporaryDirectory() as assets:
        served = ServedModel(directory, assets, config, tokenization)
        tf.saved_model.save(served.resources, str(path), served.signatures)
    _name_regression(path)
    missing = unserved(path, text=tokenization is not None)
    if missing:
        raise RuntimeError(f"found {', '.join(missing)} in the graph, expected what a stock server has")
    extra = path / "assets.extra"
    extra.mkdir()
    vocabularies = [directory.source_vocabulary, directory.target_vocabulary]
    sides = zip(("source", "target"), reversed(vocabularies) if directory.reverse else vocabularies, strict=True)
    write_warmup(extra / WARMUP, served.signatures, dict(sides), config.max_tokens, model_name)
    _describe(extra / DESCRIPTION, directory, config, tokenization)


def _name_regression(path):
    """Gives the signature `regress` the method that a server's Regress asks for; TensorFlow calls all "predict"."""
    file = path / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for graph in saved.meta_graphs:
        graph.signature_def["regress"].method_name = tf.compat.v1.saved_model.REGRESS_METHOD_NAME
    file.write_bytes(saved.SerializeToString(deterministic=True))
    # It is the old file's.
    (file.parent / "fingerprint.pb").unlink(missing_ok=True)


def _describe(path, directory, config, tokenization):
    description = {
        "made_by": f"keras-encdec {__version__}",
        "scores": "ln p(source | target)" if directory.reverse else "ln p(target | source)",
        "reads": TOKENS if tokenization is None else RAW_TEXT,
        "tokenization": tokenization,
        **config.to_dict(),
        "max_bytes": config.max_tokens * BYTES_A_TOKEN,
    }
    path.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
