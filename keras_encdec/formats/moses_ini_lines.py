"""The lines of a moses.ini as Moses reads them, changed in place without touching other bytes."""

import re
from collections import Counter

_SPACE = " \t\r"


class IniLine:
    """One line of a moses.ini. What follows a `#` is a comment; words are separated by spaces and tabs.

    Args:
        number: int. The line's number, from 1.
        text: str. The line without its line feed.

    Attributes:
        text: str. The line as it is after the changes.
        section: str. Name of the section that the line stands in; empty for a section's own line.
        name: str. Of a line in `[feature]`: the feature's name, given or numbered.
        words: list of str.

    Example:

    >>> line = IniLine(1, "PhraseDictionaryMemory  path=a.gz # the table\\r")
    >>> line.set_argument("path", "b.gz")
    >>> line.add_argument("name", "TM")
    >>> line.text
    'PhraseDictionaryMemory  path=b.gz name=TM # the table\\r'
    """

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text, self.section, self.name = number, text, "", ""

    @property
    def words(self) -> list[str]:
        return re.findall(r"[^ \t\r]+", self._content())

    def enter(self, section: str) -> str:
        """Notes the section the line stands in.

        Args:
            section: str. The section so far.

        Returns:
            str. The section from here on.
        """
        content = self._content().strip(_SPACE)
        if content.startswith("["):
            return content[1:].partition("]")[0]
        self.section = section
        return section

    def argument(self, key: str) -> str | None:
        """The value of `key=value`.

        Args:
            key: str.

        Returns:
            str, or `None` when the line has no such argument.
        """
        match = self._find(key)
        return match["value"] if match else None

    def set_argument(self, key: str, value: str) -> None:
        """Changes the value of an argument.

        Args:
            key: str.
            value: str.

        Raises:
            KeyError: if the line has no such argument.
        """
        start, end = self._argument(key).span("value")
        self.text = self.text[:start] + value + self.text[end:]

    def remove_argument(self, key: str) -> None:
        """Removes an argument and the space before it.

        Args:
            key: str.

        Raises:
            KeyError: if the line has no such argument.
        """
        start, end = self._argument(key).span()
        self.text = self.text[:start] + self.text[end:]

    def add_argument(self, key: str, value: str) -> None:
        """Adds an argument after the last word.

        Args:
            key: str.
            value: str.
        """
        self.append(f" {key}={value}")

    def append(self, added: str) -> None:
        """Adds text after the last word, before spaces, a comment and a carriage return.

        Args:
            added: str.
        """
        end = len(self._content().rstrip(_SPACE))
        self.text = self.text[:end] + added + self.text[end:]

    def replace_words(self, words: str) -> None:
        """Puts other words for all that the line has; spaces around them and a comment stay.

        Args:
            words: str.
        """
        content = self._content()
        self.text = self.text.replace(content.strip(_SPACE), words, 1)

    def replace_class(self, name: str) -> None:
        """Puts another word for the first.

        Args:
            name: str.
        """
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
    """Gives every feature its name: the one it has, or its class and a number, counted as Moses does.

    Args:
        lines: list of IniLine.

    Returns:
        list of the lines that declare a feature.
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
