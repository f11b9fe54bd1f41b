"""Pairs of a file as a client would send them to a server."""

import itertools
import os

from keras_encdec.errors import InputError
from keras_encdec.formats import pair_format
from keras_encdec.formats.escaping import surface


def read_pairs(
    path: str | os.PathLike, format: str = "tsv", encoding: str | None = None, number: int | None = None
) -> tuple[list[tuple[str, str]], int]:
    """Reads the first pairs of a file.

    Args:
        path: the file, plain or gzipped.
        format: str. Name of a registered format that is one file. Defaults to "tsv".
        encoding: str. Defaults to `None`: UTF-8.
        number: int. Pairs to read at most. Defaults to `None`: all.

    Returns:
        tuple: the pairs, source and target, and how many malformed lines were left out.

    Raises:
        InputError: when the file cannot be read or has no pair.
    """
    known = pair_format(format)
    if number == 0:
        return [], 0
    with known.open_reader(path, None, encoding, "keep") as reader:
        good = (record for record in reader if not record.problem)
        pairs = [(record.source, record.target) for record in itertools.islice(good, number)]
    if not pairs:
        raise InputError("found no pair", "expected one at least", "check --format", path)
    if known.is_factored:
        pairs = [(surface(source), surface(target)) for source, target in pairs]
    return pairs, reader.malformed
