"""Flags that several commands share: parallel text, weights of features, and a flag that may name a file."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from keras_encdec.cli.command import UsageError
from keras_encdec.cli.task_command import Repeated

TEXT = {
    "source": "Source sentences, one per line; needs the target.",
    "target": "Target sentences, aligned line by line with the source.",
    "tsv": "Instead of both: pairs of source, tab, target; further columns are ignored.",
}
ALIGNMENT = {
    "alignment": "Word alignment of the pairs: lines of links such as 0-0 1-2, source-target in the files' order. "
    "Default: the pairs are aligned by sil-thot.",
}
OUTPUT = {
    "output": "File to write; gzipped if its name ends in .gz. It appears when it is complete. - is the standard "
    "output."
}
WEIGHTS = {
    "weights": 'moses.ini, or a file of lines "Name= w [w ...]".',
    "weight": Repeated("Name=w, the weight of a feature; overrides --weights. May be given several times."),
}


def text_input(arguments: Mapping[str, str | None]) -> dict[str, Any]:
    """Returns the parallel text that the flags of `TEXT` name, as arguments of a task.

    Args:
        arguments: dict of the names of all flags in `TEXT` to their values; `None` for a flag that is not given.

    Returns:
        dict of "input", "format" and, if the text is in two files, "source".

    Raises:
        UsageError: if the flags name no text, or more than one.
    """
    given = [name for name in TEXT if arguments[name]]
    if given not in (["source", "target"], ["tsv"]):
        found = " and ".join(f"--{name}" for name in given) or "no text"
        raise UsageError(f"found {found}, expected --source with --target, or --tsv.")
    if given == ["tsv"]:
        return {"input": arguments["tsv"], "format": "tsv"}
    return {"input": arguments["target"], "format": "parallel", "source": arguments["source"]}


def parsed_weights(texts: Sequence[str]) -> dict[str, list[float]]:
    """Returns the weights given by --weight, by feature. If a feature is given twice, the last weight counts.

    Args:
        texts: list of str, such as "LM0=0.5".

    Raises:
        UsageError: for a value that is not of the form Name=w.
    """
    from keras_encdec.formats import parse_weights

    try:
        return dict(parse_weights(text) for text in texts)
    except ValueError as error:
        raise UsageError(f"--weight: {error}.") from None


def warn_of_missing(missing: int, consequence: str) -> None:
    """Warns on standard error of sentences without hypotheses, if there are any.

    Args:
        missing: int. Number of such sentences.
        consequence: str. What happens to them, such as "are empty lines".
    """
    if missing:
        gap = f"{missing:,} sentences had no hypotheses, and {consequence}"
        print(f"{gap}; check that the ids in the list are those of its sentences, the first 0.", file=sys.stderr)


class PathOrFlagParser(flags.ArgumentParser):
    """Parses a flag that is given without a value, `--flag` or `--noflag`, or with a path, `--flag=path`."""

    syntactic_help = "alone, or with a path"

    def parse(self, argument: bool | str) -> bool | str:
        """Returns true, false, or the path."""
        return {"true": True, "false": False, "": False}.get(argument, argument)

    def flag_type(self) -> str:
        """Returns the name of the type in the help."""
        return "bool or path"


def path_flag(name: str, help: str) -> flags.Flag:
    """Makes a flag whose value is true, false or a path. Its default is false."""
    return flags.Flag(PathOrFlagParser(), flags.ArgumentSerializer(), name, False, help, boolean=True)
