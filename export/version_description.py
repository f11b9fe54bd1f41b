"""Reads the description of an exported version, and checks the version's files with it, without TensorFlow."""

import json
import pathlib
from collections.abc import Iterator

from keras_encdec.errors import InputError
from keras_encdec.runtime.files import file_checksum
from keras_encdec.runtime.settings_files import read_parsed

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
