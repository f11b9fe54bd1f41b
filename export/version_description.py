"""The description of a version of a served model, and checks of the version against it, without TensorFlow."""

import json
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from keras_encdec.errors import InputError
from keras_encdec.model_config import WEIGHTS, check_has_weights, tasks_of
from keras_encdec.runtime.files import file_checksum
from keras_encdec.runtime.settings_files import read_parsed
from keras_encdec.trained_model import TrainedModel

DESCRIPTION = "keras_encdec.json"
TOKENS, RAW_TEXT = "tokens separated by spaces", "raw text"
# Maximum number of tokens of a phrase, unless an export sets another; the first versions do not name theirs.
MAX_TOKENS = 256
#: Forms in which the weights of a version may be stored.
WEIGHT_FORMS = ("float32", "bfloat16", "int8")


class Description(NamedTuple):
    """The description of a version, written by its export.

    Attributes:
        tokenization: dict of arguments of `Tokenizer`; `None` if the version reads tokens.
        weights: str. The form in which its weights are stored, see `ServingConfig`.
        checksums: dict from path within the folder to SHA-256 checksum; empty if an early version of this package
            exported the model.
        model_weights: str. SHA-256 checksum of the weights' file of the model that was exported; `None` if an earlier
            version of this package exported it.
        max_tokens: int. Maximum number of tokens of a phrase.
    """

    tokenization: dict[str, bool] | None
    weights: str
    checksums: dict[str, str]
    model_weights: str | None
    max_tokens: int


def read_description(version: pathlib.Path) -> Description:
    """Reads a version's description.

    Raises:
        InputError: if the description is missing or cannot be parsed.
    """
    path = version / "assets.extra" / DESCRIPTION
    try:
        description = read_parsed(path, json.loads)
        reads, tokenization = description["reads"], description["tokenization"]
        checksums, weights = description.get("sha256", {}), description.get("weights", "float32")
        if not all(isinstance(value, str) and _is_within(name) for name, value in checksums.items()):
            raise ValueError("its checksums are not strings by path")
        if weights not in WEIGHT_FORMS:
            raise ValueError(f"its weights are {weights!r}")
        model_weights = description.get("model_weights")
        if not isinstance(model_weights, str | None):
            raise ValueError("its model_weights is not a checksum")
        tokenization = dict(tokenization) if reads == RAW_TEXT else None
        return Description(
            tokenization, weights, checksums, model_weights, int(description.get("max_tokens", MAX_TOKENS))
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"found no valid description of the version ({error})",
            "expected the file that encdec-export writes",
            "export the model again",
            path,
        ) from None


def version_checksums(version: pathlib.Path) -> dict[str, str]:
    """Computes the SHA-256 checksums of a version's graph, weights and vocabularies, by path within the folder."""
    return {file.relative_to(version).as_posix(): file_checksum(file) for file in sorted(_served_files(version))}


def check_unchanged(version: pathlib.Path) -> None:
    """Checks that no file of a version has changed since it was exported.

    Versions exported by early versions of this package have no checksums, and pass.

    Raises:
        InputError: if a file has changed or is missing, or the description cannot be parsed.
    """
    for name, expected in read_description(version).checksums.items():
        if file_checksum(version / name) != expected:
            raise InputError(
                "found a file that has changed since the model was exported",
                f"expected the file with the SHA-256 checksum {expected}",
                "restore the file, or export the model again",
                version / name,
            )


def check_exported_from(model: TrainedModel, version: pathlib.Path) -> None:
    """Checks that a version was exported from a model, by the checksum of the model's weights.

    Versions exported by earlier versions of this package do not have the checksum, and pass.

    Raises:
        InputError: for another model, or if its weights or the description cannot be read.
    """
    exported = read_description(version).model_weights
    check_has_weights(model.path / WEIGHTS)
    if exported is not None and file_checksum(model.path / WEIGHTS) != exported:
        raise InputError(
            "found weights that differ from the exported ones",
            f"expected the model that {version} was exported from",
            f"check --model_dir{' and --task' * bool(tasks_of(model.path))}, or export this model again",
            model.path / WEIGHTS,
        )


def _served_files(version: pathlib.Path) -> Iterator[pathlib.Path]:
    yield version / "saved_model.pb"
    for folder in ("variables", "assets"):
        yield from (file for file in (version / folder).rglob("*") if file.is_file())


def _is_within(name: str) -> bool:
    path = pathlib.PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
