"""Writes a SavedModel of a trained model, with warm-up requests and a description."""

import itertools
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.types.experimental import ConcreteFunction
from tensorflow_serving.apis import prediction_log_pb2

from keras_encdec import __version__
from keras_encdec.errors import InputError
from keras_encdec.export.phrase_ids import BYTES_A_TOKEN
from keras_encdec.export.served_model import ServedModel
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.files import file_checksum
from keras_encdec.runtime.settings_files import read_parsed
from keras_encdec.text import Vocabulary

# Numbers of tokens per phrase, and of pairs per request, in the warm-up.
LENGTHS, BATCHES = (1, 3, 7, 20), (1, 32)


def write_warmup(
    path: str | os.PathLike,
    signatures: dict[str, ConcreteFunction],
    vocabularies: dict[str, Vocabulary],
    max_tokens: int,
    model_name: str,
) -> None:
    """Writes warm-up requests for each signature, with several lengths and batch sizes.

    Args:
        path: the file to write.
        signatures: dict of name to concrete function.
        vocabularies: dict of input name to Vocabulary. Its most frequent words make up the phrases.
        max_tokens: int. Largest number of tokens of a phrase.
        model_name: str. Name of the model on the server.
    """
    with tf.io.TFRecordWriter(str(path)) as writer:
        for (name, function), length, batch in itertools.product(signatures.items(), LENGTHS, BATCHES):
            phrases = {
                side: _phrases(vocabulary, min(length, max_tokens), batch) for side, vocabulary in vocabularies.items()
            }
            log = prediction_log_pb2.PredictionLog()
            if name == "regress":
                request = log.regress_log.request
                for pair in zip(*phrases.values(), strict=True):
                    example = request.input.example_list.examples.add()
                    for side, phrase in zip(phrases, pair, strict=True):
                        example.features.feature[side].bytes_list.value.append(phrase)
            else:
                request = log.predict_log.request
                for spec in function.structured_input_signature[0]:
                    texts = spec.dtype == tf.string
                    values = phrases.get(spec.name, phrases["source"]) if texts else [1] * batch
                    request.inputs[spec.name].CopyFrom(tf.make_tensor_proto(values, spec.dtype))
            request.model_spec.name, request.model_spec.signature_name = model_name, name
            writer.write(log.SerializeToString())


def _phrases(vocabulary: Vocabulary, length: int, batch: int) -> list[bytes]:
    """Makes phrases from consecutive words of the vocabulary."""
    words = itertools.cycle(word.encode("utf-8", "replace") for word in vocabulary.words[:1000])
    return [b" ".join(itertools.islice(words, length)) for _ in range(batch)]


# A standard server lacks these operations: it neither compiles with XLA nor runs Python.
UNSERVED = ("Xla", "PyFunc", "EagerPyFunc")
# Operations of tensorflow-text. A server may be built without them.
TEXT = ("TFText", "NormalizeUTF8", "CaseFoldUTF8")


def unserved(path: str | os.PathLike, text: bool = False) -> list[str]:
    """Finds operations and attributes in a graph that a standard TensorFlow Serving may lack or refuse.

    Args:
        path: the folder of a version.
        text: bool. Whether operations of tensorflow-text are expected. Defaults to `False`.

    Returns:
        sorted list of str.
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
    config: ServingConfig | None = None,
    tokenization: dict[str, bool] | None = None,
    model_name: str = "encdec",
) -> None:
    """Writes a SavedModel with warm-up requests and a description.

    Args:
        directory: ModelDirectory, with its model, under Keras's TensorFlow backend.
        path: pathlib.Path of the folder.
        config: ServingConfig. Defaults to `None`: `ServingConfig()`.
        tokenization: dict of arguments of `Tokenizer`, for a model that reads raw text. Defaults to `None`: the model
            reads tokens.
        model_name: str. Name of the model on the server. Defaults to `"encdec"`.

    Raises:
        RuntimeError: when a server could not run the graph, because of an error in this package.
    """
    config = config or ServingConfig()
    with tempfile.TemporaryDirectory() as assets:
        served = ServedModel(directory, assets, config, tokenization)
        tf.saved_model.save(served.resources, str(path), served.signatures)
    _name_regression(path)
    missing = unserved(path, text=tokenization is not None)
    if missing:
        raise RuntimeError(f"found {', '.join(missing)} in the graph, expected operations that a standard server has")
    extra = path / "assets.extra"
    extra.mkdir()
    vocabularies = [directory.source_vocabulary, directory.target_vocabulary]
    sides = zip(("source", "target"), reversed(vocabularies) if directory.reverse else vocabularies, strict=True)
    write_warmup(extra / WARMUP, served.signatures, dict(sides), config.max_tokens, model_name)
    _describe(path, directory, config, tokenization)


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
        "max_bytes": config.max_tokens * BYTES_A_TOKEN,
        "sha256": version_checksums(version),
    }
    path = version / "assets.extra" / DESCRIPTION
    path.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")


DESCRIPTION = "keras_encdec.json"
TOKENS, RAW_TEXT = "tokens separated by spaces", "raw text"


def read_tokenization(version: pathlib.Path) -> dict[str, bool] | None:
    """Reads from a version's description how it tokenizes requests.

    Args:
        version: pathlib.Path of the version's folder.

    Returns:
        dict of arguments of `Tokenizer`; `None` if the version reads tokens.

    Raises:
        InputError: when the description is missing or cannot be parsed.
    """
    tokenization, _ = _read(version)
    return tokenization


def version_checksums(version: pathlib.Path) -> dict[str, str]:
    """Computes the SHA-256 checksums of a version's graph, weights and vocabularies.

    Args:
        version: pathlib.Path of the version's folder.

    Returns:
        dict of path within the folder to checksum.
    """
    return {file.relative_to(version).as_posix(): file_checksum(file) for file in sorted(_served_files(version))}


def check_unchanged(version: pathlib.Path) -> None:
    """Checks that no file of a version has changed since it was exported.

    Versions exported by early versions of this package have no checksums, and pass.

    Args:
        version: pathlib.Path of the version's folder.

    Raises:
        InputError: when a file has changed or is missing, or the description cannot be parsed.
    """
    _, checksums = _read(version)
    for name, expected in checksums.items():
        if file_checksum(version / name) != expected:
            raise InputError(
                "found a file that has changed since the model was exported",
                f"expected the file with the SHA-256 checksum {expected}",
                "restore the file, or export the model again",
                version / name,
            )


def _served_files(version: pathlib.Path) -> Iterator[pathlib.Path]:
    yield version / "saved_model.pb"
    for folder in ("variables", "assets"):
        yield from (file for file in (version / folder).rglob("*") if file.is_file())


def _read(version: pathlib.Path) -> tuple[dict[str, bool] | None, dict[str, str]]:
    """Reads the tokenization and the checksums from a version's description."""
    path = version / "assets.extra" / DESCRIPTION
    try:
        description = read_parsed(path, json.loads)
        reads, tokenization = description["reads"], description["tokenization"]
        checksums = description.get("sha256", {})
        if not all(isinstance(value, str) and _is_within(name) for name, value in checksums.items()):
            raise ValueError("its checksums are not strings by path")
        return (dict(tokenization) if reads == RAW_TEXT else None), checksums
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"found no valid description of the version ({error})",
            "expected the file that encdec-export writes",
            "export the model again",
            path,
        ) from None


def _is_within(name: str) -> bool:
    path = pathlib.PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
