"""Hypotheses and references as metrics read them."""

from collections.abc import Sequence

from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, escape, read_sentences, unescape


def read_references(paths: Sequence[FilePath], encoding: str | None = None, unescaped: bool = True) -> list[list[str]]:
    """Reads reference translations.

    Args:
        paths: files, a sentence a line; all of as many lines.
        encoding: str. Defaults to `None`: UTF-8.
        unescaped: bool. Whether Moses's escapes are taken off. Defaults to `True`.

    Returns:
        list of lists of str, one for each file.

    Raises:
        InputError: when a file cannot be read, or has another number of lines than the first.
    """
    files = [read_text(path, encoding, unescaped) for path in paths]
    for path, sentences in zip(paths, files, strict=True):
        check_lines(path, len(sentences), paths[0], len(files[0]))
    return files


def read_text(path: FilePath, encoding: str | None = None, unescaped: bool = False) -> list[str]:
    """Reads the sentences of a file, with Moses's escapes taken off if `unescaped`."""
    sentences = read_sentences(path, encoding)
    return [unescape(sentence) for sentence in sentences] if unescaped else sentences


def is_escaped(sentences: Sequence[str]) -> bool | None:
    """Whether text has Moses's escapes; `None` of text without escapes and without characters that have one."""
    if any(unescape(sentence) != sentence for sentence in sentences):
        return True
    return False if any(escape(sentence) != sentence for sentence in sentences) else None


def check_lines(path: FilePath, lines: int, reference: FilePath, expected: int) -> None:
    """Raises InputError unless a file has as many lines as the references."""
    if lines != expected:
        raise InputError(
            f"found {lines:,} lines", f"expected {expected:,}, as {reference} has",
            "give files of the same sentences in the same order", path,
        )  # fmt: skip
