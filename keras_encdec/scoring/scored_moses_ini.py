"""The moses.ini of a phrase table that gets scores."""

import os
import pathlib
from collections.abc import Sequence

from keras_encdec.errors import InputError
from keras_encdec.formats import Column, ColumnKind, rewrite_moses_ini


def scored_moses_ini(
    path: str | os.PathLike[str],
    table: str | os.PathLike[str],
    columns: Sequence[Column],
    feature: str | None = None,
    table_scores: int | None = None,
) -> tuple[bytes, list[str]]:
    """Makes the moses.ini of a phrase table with new scores from that of the table as it was.

    A new probability gets the mean of the table's weights, a count the weight 0: as e^n it is no probability, and
    a positive weight would reward words outside the shortlist. Tuning sets it.

    Args:
        path: moses.ini of the table as it was.
        table: path of the table with scores.
        columns: list of Column, the scores that are added.
        feature: str. Name of the table's feature, where the file has several tables. Optional.
        table_scores: int. Scores on each line of the table as it was, to be checked. Optional.

    Returns:
        A tuple of the new file's bytes and notices for the user, list of str.

    Raises:
        InputError: when the file cannot be read, or does not fit the table.
    """
    weights = [None if column.kind is ColumnKind.LOG_PROB else 0.0 for column in columns]
    path = pathlib.Path(path)
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise InputError(f"could not be read ({error.strerror})", remedy="check --moses_ini", path=path) from None
    text, notices = rewrite_moses_ini(text, os.path.abspath(table), len(weights), feature, weights, table_scores, path)
    return text.encode("utf-8", "surrogateescape"), notices
