"""A SavedModel of a trained model, as a new version of a folder that TensorFlow Serving polls."""

import contextlib
import json
import pathlib
import tempfile

import keras
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_encdec import __version__
from keras_encdec.errors import InputError
from keras_encdec.export.graph_check import unserved
from keras_encdec.export.phrase_ids import BYTES_A_TOKEN
from keras_encdec.export.served_model import ServedModel
from keras_encdec.export.versions import DESCRIPTION, new_version
from keras_encdec.export.warmup import write_warmup

WARMUP = "tf_serving_warmup_requests"


def export_version(
    directory, export_dir, version=None, max_tokens=256, tokenization=None, num_beams=5, model_name="encdec", above=0
):
    """Writes a version of a served model; it appears when it is complete.

    Args:
        directory: ModelDirectory, with its model.
        export_dir: path of the folder of the versions.
        version: int. Defaults to `None`: one more than the newest.
        max_tokens: int. Tokens of a phrase, see `ServedModel`. Defaults to `256`.
        tokenization: dict of arguments of `Tokenizer`, for a version that reads raw text. Defaults to
            `None`: it reads tokens.
        num_beams: int. Of the beam search of `generate`. Defaults to `5`.
        model_name: str. What the server calls the model. Defaults to `"encdec"`.
        above: int. The new version has a larger number. Defaults to `0`.

    Returns:
        int. The version.

    Raises:
        InputError: when the version exists, or cannot be written.
        RuntimeError: under another backend of Keras than TensorFlow, or when the graph could not be
            served, which is an error in this package.
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"found Keras on {keras.backend.backend()}, expected KERAS_BACKEND=tensorflow, which a SavedModel needs; "
            "a model trained on another backend loads there too"
        )
    with (
        _explained(export_dir),
        new_version(export_dir, version, above) as made,
        tempfile.TemporaryDirectory() as assets,
    ):
        path = made.path
        served = ServedModel(directory, assets, max_tokens, tokenization, num_beams)
        tf.saved_model.save(served.resources, str(path), served.signatures)
        _name_regression(path)
        found = unserved(path, text=tokenization is not None)
        if found:
            raise RuntimeError(f"found {', '.join(found)} in the graph, expected what a stock server has")
        extra = path / "assets.extra"
        extra.mkdir()
        vocabularies = [directory.source_vocabulary, directory.target_vocabulary]
        sides = zip(("source", "target"), reversed(vocabularies) if directory.reverse else vocabularies, strict=True)
        write_warmup(extra / WARMUP, served.signatures, dict(sides), max_tokens, model_name)
        _describe(extra / DESCRIPTION, directory, max_tokens, tokenization)
    return made.number


@contextlib.contextmanager
def _explained(export_dir):
    """TensorFlow's own errors of writing, a full disk above all, as ours."""
    try:
        yield
    except tf.errors.OpError as error:
        raise InputError(
            f"could not be written ({error.message.splitlines()[0]})", "",
            "free space, or check the path and its permissions", export_dir,
        ) from error  # fmt: skip


def _name_regression(path):
    """Gives the signature `regress` the method that a server's Regress asks for; TensorFlow calls all "predict"."""
    file = pathlib.Path(path) / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for graph in saved.meta_graphs:
        graph.signature_def["regress"].method_name = tf.compat.v1.saved_model.REGRESS_METHOD_NAME
    file.write_bytes(saved.SerializeToString(deterministic=True))
    # It is the old file's.
    (file.parent / "fingerprint.pb").unlink(missing_ok=True)


def _describe(path, directory, max_tokens, tokenization):
    description = {
        "made_by": f"keras-encdec {__version__}",
        "scores": "ln p(source | target)" if directory.reverse else "ln p(target | source)",
        "reads": "tokens separated by spaces" if tokenization is None else "raw text",
        "tokenization": tokenization,
        "max_tokens": max_tokens,
        "max_bytes": max_tokens * BYTES_A_TOKEN,
    }
    path.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
