"""The lines of a moses.ini, and a moses.ini rewritten for a phrase table to which scores were added."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from keras_encdec.errors import FilePath, InputError, quoted, shortened
from keras_encdec.formats.encodings import BYTE_ORDER_MARK
from keras_encdec.formats.fields import FIELD_SPACE, LARGEST, finite_number

_SPACE = FIELD_SPACE.decode()


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
            section: str. The section of the previous line.

        Returns:
            str. The section of the next line.
        """
        content = self._content().strip(_SPACE)
        if self.number == 1:
            content = content.removeprefix(BYTE_ORDER_MARK)
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


def enter_sections(lines: Iterable[IniLine]) -> set[str]:
    """Sets the section of every line.

    Args:
        lines: the IniLine of a whole file, in order.

    Returns:
        set of str. The names of the sections, and "" for lines before the first.
    """
    section, names = "", set[str]()
    for line in lines:
        section = line.enter(section)
        names.add(section)
    return names


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


def weight_values(words: Sequence[str]) -> list[float] | None:
    """Parses weights. Returns `None` if one is not a number, or if its absolute value is above `LARGEST`."""
    try:
        return [finite_number(word, LARGEST) for word in words]
    except ValueError:
        return None


_TEXT_TABLES = ("PhraseDictionaryMemory", "PhraseDictionaryScope3")
_BINARY_TABLES = ("PhraseDictionaryBinary", "PhraseDictionaryCompact", "PhraseDictionaryOnDisk", "ProbingPT")
# Arguments of the binary classes that PhraseDictionaryMemory rejects.
_BINARY_ARGUMENTS = ("load", "max-span-default", "max-span-labelled")


def rewrite_moses_ini(
    text: str,
    table_path: FilePath,
    extra_scores: int,
    feature: str | None = None,
    new_weights: Sequence[float | None] | None = None,
    table_scores: int | None = None,
    path: FilePath | None = None,
) -> tuple[str, list[str]]:
    r"""Rewrites a moses.ini for a phrase table to which scores were appended.

    The feature of the table gets the new `path` and `num-features`, and its line in `[weight]` gets the new weights. No
    other byte changes. The new table is text. If the old one was binarized, the class of its feature is therefore
    changed to `PhraseDictionaryMemory`; the feature keeps its name.

    Args:
        text: str. The text of the file, read without translating line ends (`newline=""`).
        table_path: str. The path of the new table, for Moses.
        extra_scores: int. The number of scores that were appended.
        feature: str. Name of the phrase table's feature, such as `TranslationModel0`. Optional if the file has only one
            phrase table.
        new_weights: list with a float or `None` for each new score; `None` stands for the mean of the absolute values
            of the table's weights. Defaults to `None` for each.
        table_scores: int. The number of scores on each line of the old table, to check `num-features`. Optional.
        path: the file, named in errors. Optional.

    Returns:
        A tuple of the new text (str) and of notices for the user (list of str).

    Raises:
        InputError: if the feature is missing, ambiguous or not a phrase table; if `num-features` differs from the
            number of weights or scores; if Moses could not read the path.
        ValueError: if `extra_scores` is below 1 or `new_weights` has a different length.

    Example:

    >>> text = "[feature]\nPhraseDictionaryMemory name=TM num-features=1 path=a.gz\n[weight]\nTM= 0.2"
    >>> print(rewrite_moses_ini(text, "b.gz", 1)[0])
    [feature]
    PhraseDictionaryMemory name=TM num-features=2 path=b.gz
    [weight]
    TM= 0.2 0.2
    """
    if extra_scores < 1 or (new_weights is not None and len(new_weights) != extra_scores):
        raise ValueError(
            f"found extra_scores={extra_scores} and new_weights={new_weights}, expected a weight per score"
        )
    table_path = str(table_path)
    if not table_path or any(character in table_path for character in " \t\r\n#"):
        raise InputError(
            f'found the path "{table_path}" of the table',
            "expected a path without spaces and #",
            "rename the table or its directory: moses.ini cannot hold such a path",
            path=path,
        )
    lines = [IniLine(number, line) for number, line in enumerate(text.split("\n"), start=1)]
    enter_sections(lines)
    features = name_features(lines)
    table = _find_table(features, lines, feature, path)
    count = _number_of_features(table, table_scores, path)
    weight_line, weights = _find_weights(table.name, count, lines, path)

    mean = sum(map(abs, weights)) / len(weights)
    added = [mean if weight is None else weight for weight in new_weights or [None] * extra_scores]
    weight_line.append("".join(f" {weight:.6g}" for weight in added))
    table.set_argument("num-features", str(count + extra_scores))
    if (tuneable := table.argument("tuneable-components")) is not None:  # Moses expects one number for each score
        table.set_argument("tuneable-components", tuneable + ",1" * extra_scores)
    table.set_argument("path", table_path)
    notices = _make_text(table, features) if table.words[0] in _BINARY_TABLES else []
    return "\n".join(line.text for line in lines), notices


def _find_table(
    features: Sequence[IniLine], lines: Sequence[IniLine], feature: str | None, path: FilePath | None
) -> IniLine:
    tables = [line for line in features if line.words[0] in _TEXT_TABLES + _BINARY_TABLES]
    if feature is not None:
        named = [line for line in features if line.name == feature]
        others = ", ".join(shortened(line.name) for line in tables) or "no phrase table"
        if len(named) != 1:
            found = f"found {len(named)} features named {feature!r}"
            raise InputError(found, "expected one", f"name one of the phrase tables: {others}", path=path)
        if named[0] not in tables:
            raise InputError(
                f"found {feature!r}, a feature of the class {shortened(named[0].words[0])}",
                "expected a phrase table",
                f"name one of the phrase tables: {others}",
                path=path,
                line=named[0].number,
            )
        return named[0]
    if not tables:
        old = any(line.section == "ttable-file" for line in lines)
        raise InputError(
            "found the old section [ttable-file]" if old else "found no phrase table in a section [feature]",
            f"expected a feature {', '.join(_TEXT_TABLES + _BINARY_TABLES[:-1])} or {_BINARY_TABLES[-1]}",
            "convert the file to the format of Moses 2 and later" if old else "give the moses.ini that uses the table",
            path=path,
        )
    if len(tables) > 1:
        names = ", ".join(shortened(line.name) for line in tables)
        raise InputError(f"found the phrase tables {names}", "expected one", "name one of them", path=path)
    return tables[0]


def _number_of_features(table: IniLine, table_scores: int | None, path: FilePath | None) -> int:
    count = _argument(table, "num-features", path)
    _argument(table, "path", path)
    if not re.fullmatch("0*[1-9][0-9]{0,8}", count):
        raise InputError(
            f"found num-features={shortened(count)}",
            "expected a whole number, 1 or more",
            "correct it",
            path=path,
            line=table.number,
        )
    if table_scores is not None and int(count) != table_scores:
        raise InputError(
            f"found num-features={count}",
            f"expected {table_scores}, the number of scores on each line of the table",
            "give the moses.ini that belongs to the table, or name the table's feature",
            path=path,
            line=table.number,
        )
    return int(count)


def _argument(table: IniLine, key: str, path: FilePath | None) -> str:
    value = table.argument(key)
    if value is None:
        raise InputError(
            f"found no {key}= for {shortened(table.name)}", "", "add it to the line", path=path, line=table.number
        )
    return value


def _find_weights(
    name: str, count: int, lines: Sequence[IniLine], path: FilePath | None
) -> tuple[IniLine, list[float]]:
    label = f"{name}="
    for line in lines:
        if line.section == "weight-overwrite" and label in line.words:
            raise InputError(
                f"found weights of {shortened(name)} in [weight-overwrite]",
                "expected them in [weight]",
                "move them there",
                path=path,
                line=line.number,
            )
    weight_lines = [line for line in lines if line.section == "weight" and line.words]
    lines_of_feature = [line for line in weight_lines if line.words[0].startswith(label)]
    if len(lines_of_feature) != 1:
        raise InputError(
            f"found {len(lines_of_feature) or 'no'} lines of weights for {shortened(name)}",
            "expected one in [weight]",
            f'write it as "{shortened(label)}", a space and {count} weights',
            path=path,
            line=lines_of_feature[1].number if lines_of_feature else None,
        )
    line = lines_of_feature[0]
    weights = weight_values(line.words[1:])
    if line.words[0] != label or weights is None:
        raise InputError(
            f"found {quoted(' '.join(line.words))}",
            f'expected "{label}", a space and {count} numbers from {-LARGEST:g} to {LARGEST:g}',
            "correct it",
            path=path,
            line=line.number,
        )
    if len(weights) != count:
        raise InputError(
            f"found {len(weights)} weights for {shortened(name)}",
            f"expected {count}, its num-features",
            "correct one of them",
            path=path,
            line=line.number,
        )
    return line, weights


def _make_text(table: IniLine, features: Sequence[IniLine]) -> list[str]:
    binary_class = table.words[0]
    dropped = [key for key in _BINARY_ARGUMENTS if table.argument(key) is not None]
    # Moses numbers the unnamed features of a class. Once the table has another class, the later features of its old
    # class would get other numbers, so their present names are written out.
    for line in features:
        if line.words[0] == binary_class and line.argument("name") is None:
            line.add_argument("name", line.name)
    for key in dropped:
        table.remove_argument(key)
    table.replace_class("PhraseDictionaryMemory")
    notice = (
        f"{table.name} was a {binary_class}. The new table is text, which PhraseDictionaryMemory reads. "
        f"Binarize the new table to use {binary_class} again."
    )
    return [notice + (f" Left out: {', '.join(dropped)}." if dropped else "")]
