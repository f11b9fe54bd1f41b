"""The lines of a moses.ini: their sections, words and arguments."""

import re
from collections import Counter
from collections.abc import Iterable

from keras_encdec.formats.encodings import BYTE_ORDER_MARK
from keras_encdec.formats.fields import FIELD_SPACE

_SPACE = FIELD_SPACE.decode()
# A comment in a file without sections, in which the names of sparse features may contain a #.
_COMMENT = re.compile(r"(?<![^ \t])#.*")


class IniLine:
    r"""A line of a moses.ini. Spaces and tabs separate words, and a comment starts with `#`.

    Before the first section, as in a file of weights only, a `#` inside a word does not start a comment.

    Args:
        number: int. The number of the line, from 1.
        text: str. The line without its line feed.
        section: str. The section of the previous line. Defaults to none.

    Attributes:
        text: str. The line, with the changes so far.
        section: str. Name of the section that contains the line or starts with it; empty before the first section.
        name: str. For a line that declares a feature: the feature's name, as given or as numbered by Moses.
        words: list of str. The words of the line without its comment; none if the line starts a section.

    Example:

    >>> line = IniLine(1, "PhraseDictionaryMemory  path=a.gz # the table\r")
    >>> line.set_argument("path", "b.gz")
    >>> line.append(" name=TM")
    >>> line.text
    'PhraseDictionaryMemory  path=b.gz name=TM # the table\r'
    """

    def __init__(self, number: int, text: str, section: str = "") -> None:
        self.number, self.text, self.section, self.name = number, text, section, ""
        content = self._content.strip(_SPACE)
        if number == 1:
            content = content.removeprefix(BYTE_ORDER_MARK)
        self._starts_section = content.startswith("[")
        if self._starts_section:
            self.section = content[1:].partition("]")[0]

    @property
    def words(self) -> list[str]:
        return [] if self._starts_section else re.findall(r"[^ \t\r]+", self._content)

    def argument(self, key: str) -> str | None:
        """Returns the value of the argument `key=value`; `None` if the line has no such argument."""
        match = self._find(key)
        return match["value"] if match else None

    def set_argument(self, key: str, value: str | None) -> None:
        """Changes the value of an argument, or, with `None`, removes the argument and the space before it.

        Raises:
            KeyError: if the line has no such argument.
        """
        match = self._find(key)
        if match is None:
            raise KeyError(key)
        start, end = match.span() if value is None else match.span("value")
        self.text = self.text[:start] + (value or "") + self.text[end:]

    def append(self, added: str) -> None:
        """Adds text after the last word, before spaces, a comment and a carriage return."""
        end = len(self._content.rstrip(_SPACE))
        self.text = self.text[:end] + added + self.text[end:]

    def replace_words(self, words: str) -> None:
        """Replaces all words of the line. The spaces around them and a comment stay."""
        self.text = self.text.replace(self._content.strip(_SPACE), words, 1)

    @property
    def _content(self) -> str:
        return self.text.partition("#")[0] if self.section else _COMMENT.sub("", self.text)

    def _find(self, key: str) -> re.Match[str] | None:
        return re.search(rf"[ \t]+{re.escape(key)}=(?P<value>[^ \t\r]*)", self._content)


def parse_ini_lines(texts: Iterable[str]) -> list[IniLine]:
    """Parses the lines of a moses.ini, without line feeds. Those that declare a feature get a `name`.

    An unnamed feature is named by its class and a number, counted as by Moses.
    """
    lines: list[IniLine] = []
    unnamed: Counter[str] = Counter()
    for number, text in enumerate(texts, start=1):
        line = IniLine(number, text, lines[-1].section if lines else "")
        if line.section == "feature" and line.words:
            feature_class = line.words[0]
            line.name = line.argument("name") or f"{feature_class}{unnamed[feature_class]}"
            unnamed[feature_class] += not line.argument("name")
        lines.append(line)
    return lines
