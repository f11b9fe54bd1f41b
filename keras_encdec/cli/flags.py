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
    """The parallel text that the flags of `TEXT` name, as tasks take it.

    Args:
        arguments: dict of the names of all flags in `TEXT` to their values; `None` for a flag that is not given.

    Returns:
        dict: "input" and "format", and "source" for two files.

    Raises:
        UsageError: unless the flags name one text.
    """
    given = [name for name in TEXT if arguments[name]]
    if given not in (["source", "target"], ["tsv"]):
        found = " and ".join(f"--{name}" for name in given) or "no text"
        raise UsageError(f"found {found}, expected --source with --target, or --tsv.")
    if given == ["tsv"]:
        return {"input": arguments["tsv"], "format": "tsv"}
    return {"input": arguments["target"], "format": "parallel", "source": arguments["source"]}


def parsed_weights(texts: Sequence[str]) -> dict[str, list[float]]:
    """The weights of --weight by feature; of several values for one feature the last.

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
        consequence: str. What becomes of them, such as "are empty lines".
    """
    if missing:
        gap = f"{missing:,} sentences had no hypotheses, and {consequence}"
        print(f"{gap}; check that the ids in the list are those of its sentences, the first 0.", file=sys.stderr)


class PathOrFlagParser(flags.ArgumentParser):
    """Parses the value of a flag that stands alone, `--flag` or `--noflag`, or names a file, `--flag=path`."""

    syntactic_help = "alone, or with a path"

    def parse(self, argument: bool | str) -> bool | str:
        """True, false, or the path."""
        return {"true": True, "false": False, "": False}.get(argument, argument)

    def flag_type(self) -> str:
        """What the help calls it."""
        return "bool or path"


def path_flag(name: str, help: str) -> flags.Flag:
    """Such a flag, false by default; its value is true, false or the path."""
    return flags.Flag(PathOrFlagParser(), flags.ArgumentSerializer(), name, False, help, boolean=True)
