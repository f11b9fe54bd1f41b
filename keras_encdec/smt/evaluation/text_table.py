"""Lays out tables as text."""

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows of cells as lines: the first column is aligned on the left, the others on the right.

    Args:
        rows: list of rows of equal length, the header first.

    Example:

    >>> print(text_table([("system", "BLEU"), ("rnn", "9.5"), ("baseline", "31.2")]))
    system    BLEU
    rnn        9.5
    baseline  31.2
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip() for first, *others in rows
    )
