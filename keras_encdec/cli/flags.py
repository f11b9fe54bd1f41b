"""Flags that several commands have for parallel text and how it is read."""

import sys
from collections.abc import Mapping
from typing import Any

from absl import flags

from keras_encdec.cli.command import UsageError


def text_flags(further_columns: str = "ignored") -> dict[str, str]:
    """The flags --source, --target and --tsv, with their help.

    Args:
        further_columns: str. What becomes of further columns of --tsv. Defaults to "ignored".
    """
    return {
        "source": "Source sentences, one per line; needs the target.",
        "target": "Target sentences, aligned line by line with the source.",
        "tsv": f"Instead of both: pairs of source, tab, target; further columns are {further_columns}.",
    }


def define_text_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `text_flags`."""
    for name, text in text_flags().items():
        flags.DEFINE_string(name, None, text, flag_values=flag_values)


def text_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments `input`, `format` and `source` of a task, from the flags of `text_flags`.

    Args:
        values: the values of the flags by name: parsed `flags.FlagValues`, or a dict.

    Raises:
        UsageError: unless the flags name one text.
    """
    paths = {name: getattr(values[name], "value", values[name]) for name in text_flags()}
    given = [name for name, path in paths.items() if path]
    if given not in (["source", "target"], ["tsv"]):
        found = " and ".join(f"--{name}" for name in given) or "no text"
        raise UsageError(f"found {found}, expected --source with --target, or --tsv.")
    if paths["tsv"]:
        return {"input": paths["tsv"], "format": "tsv"}
    return {"input": paths["target"], "format": "parallel", "source": paths["source"]}


def define_tokenization_flags(flag_values: flags.FlagValues) -> None:
    """Defines --tokenize and --lowercase."""
    define = {"flag_values": flag_values}
    flags.DEFINE_bool("tokenize", False, "The text is raw: normalize and tokenize it, as for the model.", **define)
    flags.DEFINE_bool("lowercase", False, "Fold case when tokenizing.", **define)


def tokenization(flag_values: flags.FlagValues) -> dict[str, Any] | None:
    """Arguments of the `Tokenizer` that the flags of `define_tokenization_flags` ask for; `None` for no tokenizer.

    Raises:
        UsageError: for --lowercase alone.
    """
    if flag_values.lowercase and not flag_values.tokenize:
        raise UsageError("found --lowercase without --tokenize: text in tokens is taken as it is.")
    return {"lowercase": flag_values.lowercase} if flag_values.tokenize else None


def weights_given(flag_values: flags.FlagValues) -> dict[str, list[float]]:
    """The weights of --weight by feature.

    Raises:
        UsageError: for a value that is not of the form Name=w.
    """
    from keras_encdec.formats import parse_weights

    try:
        return dict(parse_weights(text) for text in flag_values.weight)
    except ValueError as error:
        raise UsageError(f"--weight: {error}.") from None


def tell_missing(missing: int, consequence: str) -> None:
    """Tells on standard error of sentences without hypotheses, if there are any.

    Args:
        missing: int. How many.
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
