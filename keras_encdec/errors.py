"""The exception for bad input and the warning, which say in a sentence what the user can do."""

import os

# Longer text is cut where an error quotes it.
_MOST_QUOTED = 80


def quoted(found: str | bytes) -> str:
    """Quotes text that was found in a file, for an error: in quotation marks, and cut if it is long.

    Args:
        found: str or bytes. Bytes that are not UTF-8 and invisible characters are written as backslash escapes.

    Example:

    >>> print(quoted(b"caf\\xe9"), quoted("1" * 5000))  # doctest: +ELLIPSIS
    "caf\\xe9" "1111...1..." (5,000 characters)
    """
    text = found.decode("utf-8", "backslashreplace") if isinstance(found, bytes) else found
    return f'"{shortened(text)}"' + (f" ({len(text):,} characters)" if len(text) > _MOST_QUOTED else "")


def shortened(name: str) -> str:
    """Prepares a name that was found in a file for an error: without quotation marks, and cut if it is long."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name[:_MOST_QUOTED])
    return shown + "..." * (len(name) > _MOST_QUOTED)


class InputError(Exception):
    """Error about bad input: where it is, what was found, what was expected, and what to do.

    Commands print it as one sentence and exit with status 1; library users catch it.

    Args:
        found: str. What was found, starting in lower case ("found 3 scores").
        expected: str. What was expected ("expected 4 as on line 1"). Optional.
        remedy: str. What the user can do ("repair or remove the line"). Optional.
        path: file or directory at fault. Optional.
        line: int. Line number at fault, from 1. Optional.

    Example:

    >>> print(InputError("found 3 scores", "expected 4", "repair the line", path="table.gz", line=7))
    table.gz, line 7: found 3 scores, expected 4; repair the line.
    """

    def __init__(
        self,
        found: str,
        expected: str = "",
        remedy: str = "",
        path: str | os.PathLike[str] | None = None,
        line: int | None = None,
    ) -> None:
        self.found, self.expected, self.remedy = found, expected, remedy
        self.path, self.line = path, line
        place = "" if path is None else f"{path}" if line is None else f"{path}, line {line}"
        sentence = ", ".join(part for part in (found, expected) if part)
        sentence = "; ".join(part for part in (sentence, remedy) if part)
        super().__init__(f"{place}: {sentence}." if place else f"{sentence}.")

    def __reduce__(self) -> tuple[type, tuple]:
        """Pickles the arguments of the constructor, so that an error of another process stays the same."""
        return type(self), (self.found, self.expected, self.remedy, self.path, self.line)


class EncdecWarning(UserWarning):
    """Warning about input that works, but probably not as the user intends.

    Its sentence says what was found and what to do. Commands print it.
    """
