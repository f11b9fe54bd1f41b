"""Weights of features, written as files and into a moses.ini."""

from collections.abc import Mapping, Sequence

from keras_encdec.errors import InputError, shortened
from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.moses_ini_lines import IniLine

Weights = Mapping[str, Sequence[float]]


def weights_text(weights: Weights, comment: str = "") -> str:
    """Weights as lines that `read_weights` reads.

    Args:
        weights: dict of str to list of float.
        comment: str. A line to begin with. Optional.

    Returns:
        str.

    Example:

    >>> print(weights_text({"LM0": [0.5], "TM0": [0.25, -0.125]}, "tuned"), end="")
    # tuned
    LM0= 0.5
    TM0= 0.25 -0.125
    """
    lines = [f"# {comment}"] if comment else []
    return "".join(f"{line}\n" for line in [*lines, *(_line(name, values) for name, values in weights.items())])


def replace_moses_weights(text: str, weights: Weights, path: FilePath | None = None) -> str:
    """Puts other weights into the section `[weight]` of a moses.ini; every other byte stays.

    Args:
        text: str. The file's text, read without translating line ends (`newline=""`).
        weights: dict of str to list of float. Features that it lacks keep their weights.
        path: the file, named in errors. Optional.

    Returns:
        str.

    Raises:
        InputError: when a feature has no weights in the file.

    Example:

    >>> print(replace_moses_weights("[weight]\\nLM0= 0.5 # 5-gram\\nTM0= 1 2", {"LM0": [0.25]}))
    [weight]
    LM0= 0.25 # 5-gram
    TM0= 1 2
    """
    lines = [IniLine(number, line) for number, line in enumerate(text.split("\n"), start=1)]
    section, written = "", set()
    for line in lines:
        section = line.enter(section)
        name = " ".join(line.words).partition("=")[0]
        if line.section == "weight" and name in weights:
            line.replace_words(_line(name, weights[name]))
            written.add(name)
    if missing := sorted(weights.keys() - written):
        raise InputError(
            f"found no weights of {', '.join(map(shortened, missing))} in [weight]",
            "expected weights of all features of the lists",
            "features that Moses does not compute belong into --weights_out, which encdec-rerank reads", path,
        )  # fmt: skip
    return "\n".join(line.text for line in lines)


def _line(name, values):
    return " ".join([f"{name}=", *(f"{value:.6g}" for value in values)])
