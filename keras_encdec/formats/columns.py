"""Columns of results that are added to the lines of a file."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

# Of a log-probability that is written as such.
DECIMALS = 6


class ColumnKind(enum.Enum):
    """What the values of a column are."""

    LOG_PROB = "ln p of a target, in nats"
    COUNT = "a number of words"
    TOKEN_LOG_PROBS = "ln p of each token of a target, in nats, the end of sequence last"


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of results.

    Attributes:
        kind: ColumnKind.
        name: str. Written by formats that name their columns.
    """

    kind: ColumnKind
    name: str


@dataclasses.dataclass(frozen=True)
class ColumnText:
    """How a format writes the values of a kind of column.

    Attributes:
        write: callable from a value to str.
        neutral: str. Written on a malformed line that is kept: it adds nothing to a log-linear model.
    """

    write: Callable[[Any], str]
    neutral: str


def log_prob_text(log_prob: float) -> str:
    """A log-probability as such, in nats.

    >>> log_prob_text(-1.23456789)
    '-1.234568'
    """
    return f"{log_prob:.{DECIMALS}f}"


def token_log_probs_text(log_probs: Any) -> str:
    """The log-probabilities of tokens, separated by spaces: array `(tokens,)` to str."""
    return " ".join([f"{value:.{DECIMALS}f}" for value in log_probs])
