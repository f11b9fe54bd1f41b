"""Weights of the features of a log-linear model, in a moses.ini or in a file of weights."""

import itertools
import math
import numbers
import reprlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from operator import mul

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import EncdecWarning, FilePath, InputError, quoted, shortened
from keras_encdec.formats.encodings import BYTE_ORDER_MARK
from keras_encdec.formats.fields import LARGEST, finite_number, split_tokens
from keras_encdec.formats.ini_lines import IniLine, parse_ini_lines
from keras_encdec.runtime.files import exists, resolved
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.progress import counted

# The names of Moses's features, as its n-best lists and its weights have them.

#: Minus the sum of the distances between the end of a phrase's source and the start of the next one's.
DISTORTION = "Distortion0"
#: ln p of the sentence with its end, by the language model.
LANGUAGE_MODEL = "LM0"
#: Minus the number of words.
WORD_PENALTY = "WordPenalty0"
#: The number of phrases.
PHRASE_PENALTY = "PhrasePenalty0"
#: For each score of the phrase table, the sum of its ln over the phrases.
TRANSLATION_MODEL = "TranslationModel0"
#: -100 times the number of copied words. Moses does not tune it, and leaves it out of n-best lists.
UNKNOWN_WORD_PENALTY = "UnknownWordPenalty0"
#: All of these.
DECODER_FEATURES = (DISTORTION, LANGUAGE_MODEL, WORD_PENALTY, PHRASE_PENALTY, TRANSLATION_MODEL, UNKNOWN_WORD_PENALTY)
# Sections of weights before Moses 2, without the features' names.
_OLD_SECTIONS = ("weight-t", "weight-l", "weight-d", "weight-w")

Weights = Mapping[str, Sequence[float]]


class FeatureWeights:
    """Weights of features, by name.

    Args:
        weights: dict from the name of a feature to a list of float, one for each value of the feature.
        unlisted: names of features that have weights but may be missing from an n-best list. Optional.

    Example:

    >>> FeatureWeights({"LM0": [0.5], "TM0": [0.2, 0.1]}).total({"LM0": [-4.0], "TM0": [-1.0, -2.0]})
    -2.4
    """

    def __init__(self, weights: Weights, unlisted: Iterable[str] = ()) -> None:
        self._weights = weights
        # A sparse feature, whose name has an underscore, is missing on a line if its value is 0.
        self._needed = {
            name for name, values in weights.items() if any(values) and "_" not in name and name not in unlisted
        }
        self._warns = not any("_" in name for name in weights)

    def total(
        self, features: Mapping[str, Sequence[float]], path: FilePath | None = None, line: int | None = None
    ) -> float:
        """Computes the weighted sum of features.

        A sparse feature, whose name has an underscore, has the default weight 0. If no sparse feature has a weight, the
        first one gives an `EncdecWarning`.

        Args:
            features: dict from a name to a list of float, as `parse_features` returns it.
            path: the n-best list, named in errors. Optional.
            line: int. The number of the line. Optional.

        Raises:
            InputError: if a dense feature has no weights, a feature has a different number of weights and values, a
                feature with weights other than 0 is missing, or the sum is not finite.
        """
        total = 0.0
        for name, values in features.items():
            weights = self._weights.get(name)
            if weights is None and "_" in name:
                if self._warns:
                    self._warns = False
                    found = f"found sparse features without weights, such as {shortened(name)}, which therefore do not"
                    remedy = "give the weights of the system that made the list, or give one of them the weight 0."
                    message = f"{found} count; {remedy}"
                    warnings.warn(f"{path}: {message}" if path else message, EncdecWarning, stacklevel=2)
                continue
            if weights is None:
                shown = shortened(name)
                remedy = f'add them to the --weights, or give --weight="{shown}={" 0" * len(values)}" to leave it out'
                found = f"found the feature {shown} without weights"
                raise InputError(found, f"expected {len(values)}", remedy, path, line)
            if len(weights) != len(values):
                raise InputError(
                    f"found {counted(len(values), 'values')} of {shortened(name)}",
                    f"expected {len(weights)}, one for each of its weights",
                    "give the --weights that belong to the list",
                    path,
                    line,
                )
            total += sum(map(mul, weights, values))
        if missing := self._needed - features.keys():
            names = ", ".join(map(shortened, sorted(missing)))
            remedy = "give the --weights that belong to the list, or the weight 0 to leave them out"
            raise InputError(f"found no values of {names}", "expected one for each weight", remedy, path, line)
        if not math.isfinite(total):
            found = "found features whose weighted sum is too large"
            raise InputError(found, "expected a finite number", "give smaller weights", path, line)
        return total


def read_weights(path: FilePath) -> dict[str, list[float]]:
    """Reads the weights in a moses.ini, or in a file that contains only the lines of its section `[weight]`.

    The section `[weight-file]` may name a file with weights of sparse features, one `Name_x w` per line. The weights in
    `[weight]` take precedence over those in this file. Its path is relative to the working directory, as in Moses, or
    else to the folder of the moses.ini.

    Args:
        path: the file, plain or gzipped. A line is `Name= w [w ...]`; a comment starts with `#`. In a file without
            sections, the name of a sparse feature may contain a `#`.

    Returns:
        dict from the name of a feature to a list of float.

    Raises:
        InputError: if a file cannot be read, has no weights, has weights in `[weight-overwrite]`, or has a malformed
            or a repeated line among the weights.
    """
    return _read(path)[0]


def read_nbest_weights(path: FilePath) -> tuple[dict[str, list[float]], set[str]]:
    """Reads the weights of the values that are in n-best lists.

    Moses leaves out features that are not tuned. Of a feature with `tuneable-components`, it leaves out the values that
    are not tuned.

    Args:
        path: see `read_weights`.

    Returns:
        A tuple of the weights, a dict from str to list of float, and the names of features that Moses leaves out, a
        set of str.

    Raises:
        InputError: see `read_weights`.
    """
    weights, features = _read(path)
    unlisted = {UNKNOWN_WORD_PENALTY}
    for feature in features:
        if f"{feature.words[0]}0" == UNKNOWN_WORD_PENALTY or _is_no(feature.argument("tuneable") or ""):
            unlisted.add(feature.name)
        values = weights.get(feature.name, [])
        if tuned := list(itertools.compress(values, tuned_mask(feature, len(values)))):
            weights[feature.name] = tuned
        else:
            unlisted.add(feature.name)
    return weights, unlisted


def _read(path: FilePath) -> tuple[dict[str, list[float]], list[IniLine]]:
    """Returns the weights, and the lines of a moses.ini that declare features."""
    with InputLines(path) as raw:
        texts = [line.decode("utf-8", "surrogateescape") for line in raw]
    texts[0] = texts[0].removeprefix(BYTE_ORDER_MARK)
    lines = parse_ini_lines(texts)
    where = "weight" if any(line.section for line in lines) else ""
    weights: dict[str, list[float]] = {}
    for line in lines:
        if line.section == "weight-overwrite" and line.words:
            raise InputError(
                "found weights in [weight-overwrite]", "expected them in [weight]", "move them there", path, line.number
            )
        if line.section != where or not line.words:
            continue
        try:
            name, values = parse_weights(" ".join(line.words))
        except ValueError as error:
            raise InputError(f"{error}", remedy="correct the line", path=path, line=line.number) from None
        if name in weights:
            found = f"found weights of {shortened(name)} twice"
            raise InputError(found, "expected them once", "remove a line", path, line.number)
        weights[name] = values
    if not weights:
        expected = 'expected a section [weight] or lines "Name= w"'
        for line in lines:
            if line.section in _OLD_SECTIONS:
                found = f"found the old section [{line.section}]"
                remedy = "convert the file to the format of Moses 2 and later"
                raise InputError(found, expected, remedy, path, line.number)
        raise InputError("found no weights", expected, "check that it is a file of weights", path)
    return {**_sparse_weights(lines, path), **weights}, [line for line in lines if line.name]


def _sparse_weights(ini_lines: Sequence[IniLine], ini: FilePath) -> dict[str, list[float]]:
    """Reads the file that a moses.ini names in its section `[weight-file]`."""
    named = [line for line in ini_lines if line.section == "weight-file" and line.words]
    if not named:
        return {}
    file = " ".join(named[0].words)
    path = file if exists(file) else resolved(ini, file)
    if len(named) > 1:
        expected, remedy = "expected one, as Moses reads only the first", "join the files"
        raise InputError("found a second file in [weight-file]", expected, remedy, ini, named[1].number)
    if not exists(path):
        found = f"found the [weight-file] {quoted(file)}"
        expected = "expected a file in the working directory or in the folder of the moses.ini"
        raise InputError(found, expected, "correct the path, or remove the section", ini, named[0].number)
    weights: dict[str, list[float]] = {}
    with InputLines(path) as lines:
        for line in lines:
            words = split_tokens(line.decode("utf-8", "surrogateescape").removesuffix("\r"))
            if not words or line.startswith(b"#"):
                continue
            values = weight_values(words[1:])
            # Moses writes no = after the name, which may itself end with the word "=".
            name = words[0] if words[0].endswith(("_=", "~=")) else words[0].removesuffix("=")
            if len(words) != 2 or values is None or "_" not in name or name in weights:
                found, expected = f"found {quoted(' '.join(words))}", 'expected a new sparse feature, "Name_x w"'
                raise InputError(found, expected, "correct the line", path, lines.line_number)
            weights[name] = values
    return weights


def parse_weights(text: str) -> tuple[str, list[float]]:
    """Parses the weights of a feature.

    Args:
        text: str. `Name= w [w ...]`; the space before the first weight may be missing.

    Returns:
        A tuple of the name and a list of float.

    Raises:
        ValueError: if the name is missing or is not followed by numbers, or if the absolute value of a number is above
            1e30.

    Example:

    >>> parse_weights("TM0= 0.2 0.1")
    ('TM0', [0.2, 0.1])
    """
    name, _, values = text.rpartition("=")
    names, weights = split_tokens(name), weight_values(split_tokens(values))
    if len(names) != 1 or not weights:
        numbers = f"numbers from {-LARGEST:g} to {LARGEST:g}"
        raise ValueError(f'found {quoted(text)}, expected "Name= w [w ...]" with {numbers} for w')
    return names[0], weights


def weight_values(words: Sequence[str]) -> list[float] | None:
    """Parses weights. Returns `None` if one is not a number, or if its absolute value is above `LARGEST`."""
    try:
        return [finite_number(word, LARGEST) for word in words]
    except ValueError:
        return None


def check_weights(weights: Weights) -> None:
    """Checks weights that the caller gives, as `parse_weights` checks the weights in a file.

    Raises:
        ConfigurationError: if the weights of a feature are not a list of numbers, such as a single number.
        InputError: if a weight is not a number (NaN), or if its absolute value is above `LARGEST`.
    """
    for name, values in weights.items():
        if not isinstance(values, Iterable) or not all(isinstance(value, numbers.Real) for value in values):
            found = reprlib.repr(values)
            raise ConfigurationError("found the weights %s of %s, expected a list of numbers", found, shortened(name))
        for value in values:
            if not abs(value) <= LARGEST:
                found = f"found the weight {value} of {shortened(name)}"
                raise InputError(found, f"expected a number from {-LARGEST:g} to {LARGEST:g}", "give another weight")


def _is_no(value: str) -> bool:
    """Whether Moses reads a value as no. It ignores the letter case."""
    return value.lower() in ("false", "no", "n", "0")


def tuned_mask(feature: IniLine, number: int) -> list[bool]:
    """Returns for each of a feature's values whether it is tuned."""
    components = (feature.argument("tuneable-components") or "").split(",")
    return [not _is_no(component) for component in components] if len(components) == number else [True] * number


def weights_text(weights: Weights, comment: str) -> str:
    """Formats weights as lines that `read_weights` reads, below a comment.

    Example:

    >>> print(weights_text({"LM0": [0.5], "TM0": [0.25, -0.125]}, "tuned"), end="")
    # tuned
    LM0= 0.5
    TM0= 0.25 -0.125
    """
    lines = [f"# {comment}", *(format_weights(name, values) for name, values in weights.items())]
    return "".join(f"{line}\n" for line in lines)


def format_weights(name: str, values: Iterable[float]) -> str:
    """Formats the weights of a feature as a line."""
    return " ".join([f"{name}=", *(f"{value:.6g}" for value in values)])
