"""The description of a served version, beside its graph: what it reads, for people and for `verify_export`."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

from keras_encdec.errors import InputError
from keras_encdec.runtime.files import file_checksum
from keras_encdec.runtime.settings_files import read_parsed

DESCRIPTION = "keras_encdec.json"
TOKENS, RAW_TEXT = "tokens separated by spaces", "raw text"


def read_tokenization(version: pathlib.Path) -> dict[str, Any] | None:
    """How a version tokenizes what it is sent.

    Args:
        version: pathlib.Path of the version's folder.

    Returns:
        dict of arguments of `Tokenizer`; `None` for a version that reads tokens.

    Raises:
        InputError: when the description is missing or does not read.
    """
    description = _read(version)
    return dict(description["tokenization"]) if description["reads"] == RAW_TEXT else None


def version_checksums(version: pathlib.Path) -> dict[str, str]:
    """The SHA-256 checksums of the graph, the weights and the vocabularies of a version, by path within its folder.

    Args:
        version: pathlib.Path of the version's folder.
    """
    return {file.relative_to(version).as_posix(): file_checksum(file) for file in sorted(_served_files(version))}


def check_unchanged(version: pathlib.Path) -> None:
    """Checks that the files of a version are those that were exported.

    Args:
        version: pathlib.Path of the version's folder. One that an earlier version of this package exported has no
            checksums, and passes.

    Raises:
        InputError: when a file is another one, or missing, or the description does not read.
    """
    for name, expected in _read(version).get("sha256", {}).items():
        if file_checksum(version / name) != expected:
            raise InputError(
                "found it changed since the model was exported",
                f"expected the file of the SHA-256 checksum {expected}",
                "put back the file, or export the model again",
                version / name,
            )


def _served_files(version: pathlib.Path) -> Iterator[pathlib.Path]:
    yield version / "saved_model.pb"
    for folder in ("variables", "assets"):
        yield from (file for file in (version / folder).rglob("*") if file.is_file())


def _read(version: pathlib.Path) -> dict[str, Any]:
    path = version / "assets.extra" / DESCRIPTION
    try:
        description = read_parsed(path, json.loads)
        reads, tokenization = description["reads"], description["tokenization"]
        if reads == RAW_TEXT:
            dict(tokenization)
        checksums = description.get("sha256", {})
        if not all(isinstance(value, str) and _is_within(name) for name, value in checksums.items()):
            raise ValueError("its checksums are not those of its files")
        return description
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"found no description of the version that reads ({error})",
            "expected what encdec-export writes",
            "export the model again",
            path,
        ) from None


def _is_within(name):
    path = pathlib.PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
