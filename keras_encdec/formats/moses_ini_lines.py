"""Lines of a moses.ini, parsed as by Moses, and edited without changing other bytes."""

import re
from collections import Counter

_SPACE = " \t\r"


class IniLine:
    r"""A line of a moses.ini. Spaces and tabs separate words, and a comment starts with `#`.

    Args:
        number: int. The number of the line, from 1.
        text: str. The line without its line feed.

    Attributes:
        text: str. The line, with the changes so far.
        section: str. Name of the section that contains the line; empty for the line that starts a section.
        name: str. For a line in `[feature]`: the feature's name, as given or as numbered by Moses.
        words: list of str. The words of the line without its comment.

    Example:

    >>> line = IniLine(1, "PhraseDictionaryMemory  path=a.gz # the table\r")
    >>> line.set_argument("path", "b.gz")
    >>> line.add_argument("name", "TM")
    >>> line.text
    'PhraseDictionaryMemory  path=b.gz name=TM # the table\r'
    """

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text, self.section, self.name = number, text, "", ""

    @property
    def words(self) -> list[str]:
        return re.findall(r"[^ \t\r]+", self._content())

    def enter(self, section: str) -> str:
        """Sets the section of the line.

        Args:
            section: str. The section of the line before.

        Returns:
            str. The section of the next line.
        """
        content = self._content().strip(_SPACE)
        if content.startswith("["):
            return content[1:].partition("]")[0]
        self.section = section
        return section

    def argument(self, key: str) -> str | None:
        """Returns the value of the argument `key=value`; `None` if the line has no such argument."""
        match = self._find(key)
        return match["value"] if match else None

    def set_argument(self, key: str, value: str) -> None:
        """Changes the value of an argument.

        Raises:
            KeyError: if the line has no such argument.
        """
        start, end = self._argument(key).span("value")
        self.text = self.text[:start] + value + self.text[end:]

    def remove_argument(self, key: str) -> None:
        """Removes an argument and the space before it.

        Raises:
            KeyError: if the line has no such argument.
        """
        start, end = self._argument(key).span()
        self.text = self.text[:start] + self.text[end:]

    def add_argument(self, key: str, value: str) -> None:
        """Adds an argument after the last word."""
        self.append(f" {key}={value}")

    def append(self, added: str) -> None:
        """Adds text after the last word, before spaces, a comment and a carriage return."""
        end = len(self._content().rstrip(_SPACE))
        self.text = self.text[:end] + added + self.text[end:]

    def replace_words(self, words: str) -> None:
        """Replaces all words of the line. The spaces around them and a comment stay."""
        content = self._content()
        self.text = self.text.replace(content.strip(_SPACE), words, 1)

    def replace_class(self, name: str) -> None:
        """Replaces the first word, the class of a feature."""
        self.text = self.text.replace(self.words[0], name, 1)

    def _content(self) -> str:
        return self.text.partition("#")[0]

    def _find(self, key: str) -> re.Match[str] | None:
        return re.search(rf"[ \t]+{re.escape(key)}=(?P<value>[^ \t\r]*)", self._content())

    def _argument(self, key: str) -> re.Match[str]:
        match = self._find(key)
        if match is None:
            raise KeyError(key)
        return match


def name_features(lines: list[IniLine]) -> list[IniLine]:
    """Sets the name of every feature: the given name, or its class and a number, counted as by Moses.

    Args:
        lines: list of IniLine.

    Returns:
        list of IniLine. The lines that declare a feature.
    """
    unnamed: Counter[str] = Counter()
    features = [line for line in lines if line.section == "feature" and line.words]
    for line in features:
        line.name = line.argument("name") or ""
        if not line.name:
            feature_class = line.words[0]
            line.name = f"{feature_class}{unnamed[feature_class]}"
            unnamed[feature_class] += 1
    return features
