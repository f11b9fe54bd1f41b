"""Rewrites a moses.ini: for a phrase table with added scores, or with other weights."""

import re
from collections.abc import Sequence

from keras_encdec.errors import FilePath, InputError, quoted, shortened
from keras_encdec.formats.feature_weights import Weights, format_weights, parse_weights, tuned_mask, weight_values
from keras_encdec.formats.fields import LARGEST
from keras_encdec.formats.ini_lines import IniLine, parse_ini_lines
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.progress import counted

_TEXT_TABLES = ("PhraseDictionaryMemory", "PhraseDictionaryScope3")
_BINARY_TABLES = ("PhraseDictionaryBinary", "PhraseDictionaryCompact", "PhraseDictionaryOnDisk", "ProbingPT")
# Arguments of the binary classes that PhraseDictionaryMemory rejects.
_BINARY_ARGUMENTS = ("load", "max-span-default", "max-span-labelled")


def read_moses_ini(path: FilePath) -> str:
    """Reads the text of a moses.ini, plain or gzipped, with its line ends.

    Raises:
        InputError: if the file cannot be read.
    """
    with InputLines(path) as lines:
        text = b"\n".join(lines) + (b"\n" if lines.ended_with_newline else b"")
        return text.decode("utf-8", "surrogateescape")


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
        text: str. The text of the file, as `read_moses_ini` returns it.
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
    if not is_moses_path(table_path):
        expected = "expected a path without spaces and #"
        remedy = "rename the table or its directory: moses.ini cannot hold such a path"
        raise InputError(f'found the path "{table_path}" of the table', expected, remedy, path=path)
    lines = parse_ini_lines(text.split("\n"))
    features = [line for line in lines if line.name]
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


def is_moses_path(path: str) -> bool:
    """Whether a moses.ini can hold a path: it has no way to quote spaces and #."""
    return bool(path) and not any(character in path for character in " \t\r\n#")


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
            found, remedy = f"found {feature!r}, a feature of the class", f"name one of the phrase tables: {others}"
            found = f"{found} {shortened(named[0].words[0])}"
            raise InputError(found, "expected a phrase table", remedy, path, named[0].number)
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
        raise InputError(
            f"found the phrase tables {names}", "expected one", "name one of them with --moses_feature", path=path
        )
    return tables[0]


def _number_of_features(table: IniLine, table_scores: int | None, path: FilePath | None) -> int:
    count = _argument(table, "num-features", path)
    _argument(table, "path", path)
    if not re.fullmatch("0*[1-9][0-9]{0,8}", count):
        found = f"found num-features={shortened(count)}"
        raise InputError(found, "expected a whole number, 1 or more", "correct it", path, table.number)
    if table_scores is not None and int(count) != table_scores:
        expected = f"expected {table_scores}, the number of scores on each line of the table"
        remedy = "give the moses.ini that belongs to the table, or name the table's feature with --moses_feature"
        raise InputError(f"found num-features={count}", expected, remedy, path=path, line=table.number)
    return int(count)


def _argument(table: IniLine, key: str, path: FilePath | None) -> str:
    value = table.argument(key)
    if value is None:
        raise InputError(f"found no {key}= for {shortened(table.name)}", "", "add it to the line", path, table.number)
    return value


def _find_weights(
    name: str, count: int, lines: Sequence[IniLine], path: FilePath | None
) -> tuple[IniLine, list[float]]:
    label = f"{name}="
    for line in lines:
        if line.section == "weight-overwrite" and label in line.words:
            found = f"found weights of {shortened(name)} in [weight-overwrite]"
            raise InputError(found, "expected them in [weight]", "move them there", path, line.number)
    lines_of_feature = [line for line in _weight_lines(lines) if line.words[0].startswith(label)]
    if len(lines_of_feature) != 1:
        raise InputError(
            f"found {len(lines_of_feature) or 'no'} lines of weights for {shortened(name)}",
            "expected one in [weight]",
            f'write it as "{shortened(label)}", a space and {counted(count, "weights")}',
            path=path,
            line=lines_of_feature[1].number if lines_of_feature else None,
        )
    line = lines_of_feature[0]
    weights = weight_values(line.words[1:])
    if line.words[0] != label or weights is None:
        expected = f'expected "{label}", a space and {counted(count, "numbers")} from {-LARGEST:g} to {LARGEST:g}'
        raise InputError(f"found {quoted(' '.join(line.words))}", expected, "correct it", path, line.number)
    if len(weights) != count:
        found = f"found {counted(len(weights), 'weights')} for {shortened(name)}"
        raise InputError(found, f"expected {count}, its num-features", "correct one of them", path, line.number)
    return line, weights


def _weight_lines(lines: Sequence[IniLine]) -> list[IniLine]:
    return [line for line in lines if line.section == "weight" and line.words]


def _make_text(table: IniLine, features: Sequence[IniLine]) -> list[str]:
    binary_class = table.words[0]
    dropped = [key for key in _BINARY_ARGUMENTS if table.argument(key) is not None]
    # Moses numbers the unnamed features of a class. Once the table has another class, the later features of its old
    # class would get other numbers, so their present names are written out.
    for line in features:
        if line.words[0] == binary_class and line.argument("name") is None:
            line.append(f" name={line.name}")
    for key in dropped:
        table.set_argument(key, None)
    table.text = table.text.replace(binary_class, "PhraseDictionaryMemory", 1)
    notice = (
        f"{table.name} was a {binary_class}. The new table is text, which PhraseDictionaryMemory reads. "
        f"Binarize the new table to use {binary_class} again."
    )
    return [notice + (f" Left out: {', '.join(dropped)}." if dropped else "")]


def replace_moses_weights(text: str, weights: Weights, path: FilePath | None = None) -> str:
    r"""Replaces weights in the section `[weight]` of a moses.ini. No other byte changes.

    Sparse features, whose names have an underscore, are added to the section if it lacks them. There they take
    precedence over the weights in a `[weight-file]`.

    Args:
        text: str. The text of the file, as `read_moses_ini` returns it.
        weights: dict from str to list of float. Other features keep their weights, and so do values that Moses leaves
            out of n-best lists, see `read_nbest_weights`.
        path: the file, named in errors. Optional.

    Raises:
        InputError: if a dense feature has no weights in the file, or a sparse one cannot be added.

    Example:

    >>> print(replace_moses_weights("[weight]\nLM0= 0.5 # 5-gram\nTM0= 1 2", {"LM0": [0.25]}))
    [weight]
    LM0= 0.25 # 5-gram
    TM0= 1 2
    """
    lines = parse_ini_lines(text.split("\n"))
    features = {line.name: line for line in lines if line.name}
    weight_lines = _weight_lines(lines)
    written = set[str]()
    for line in weight_lines:
        words = " ".join(line.words)
        name = words.rpartition("=")[0]
        if name in weights:
            values = weights[name]
            if name in features:
                values = _with_untuned(features[name], values, parse_weights(words)[1])
            line.replace_words(format_weights(name, values))
            written.add(name)
    missing = sorted(weights.keys() - written)
    if weight_lines and (sparse := [name for name in missing if "_" in name]):
        if commented := [name for name in sparse if "#" in name]:
            found, expected = f"found the feature {shortened(commented[0])}", "expected no #, which begins a comment"
            raise InputError(found, expected, "remove the feature from the lists", path)
        last = weight_lines[-1]
        end = "\r" if last.text.endswith("\r") else ""
        last.text += "".join(f"\n{format_weights(name, weights[name])}{end}" for name in sparse)
        missing = [name for name in missing if "_" not in name]
    if missing:
        raise InputError(
            f"found no weights of {', '.join(map(shortened, missing))} in [weight]",
            "expected weights of all features in the lists",
            "write features that Moses does not compute to --weights_out, which encdec-rerank reads",
            path,
        )
    return "\n".join(line.text for line in lines)


def _with_untuned(feature: IniLine, values: Sequence[float], before: Sequence[float]) -> Sequence[float]:
    """Returns the weights of all of a feature's values, if those of its tuned values are given."""
    tuned = tuned_mask(feature, len(before))
    if len(values) != sum(tuned):
        return values
    new = iter(values)
    return [next(new) if is_tuned else old for old, is_tuned in zip(before, tuned, strict=True)]
