"""The description of a served version, beside its graph: what it reads, for people and for `verify_export`."""

import json
import pathlib
from typing import Any

from keras_encdec.errors import InputError
from keras_encdec.parsed_files import read_parsed

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
    path = version / "assets.extra" / DESCRIPTION
    try:
        description = read_parsed(path, json.loads)
        reads, tokenization = description["reads"], description["tokenization"]
        return dict(tokenization) if reads == RAW_TEXT else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"found no description of the version that reads ({error})", "expected what encdec-export writes",
            "export the model again", path,
        ) from None  # fmt: skip
