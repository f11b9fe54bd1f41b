"""Flags that several commands have for parallel text and how it is read."""

from typing import Any

from absl import flags

from keras_encdec.cli.usage_error import UsageError


def define_text_flags(flag_values: flags.FlagValues, further_columns: str = "ignored") -> None:
    """Defines --source, --target and --tsv.

    Args:
        flag_values: where.
        further_columns: str. What becomes of further columns of --tsv. Defaults to "ignored".
    """
    define = {"flag_values": flag_values}
    flags.DEFINE_string("source", None, "Source sentences, one per line; needs the target.", **define)
    flags.DEFINE_string("target", None, "Target sentences, aligned line by line with the source.", **define)
    flags.DEFINE_string(
        "tsv", None, f"Instead of both: pairs of source, tab, target; further columns are {further_columns}.", **define
    )


def text_arguments(flag_values: flags.FlagValues) -> dict[str, Any]:
    """What jobs are given of the flags of `define_text_flags`: `input`, `format` and `source`.

    Raises:
        UsageError: unless the flags name one text.
    """
    given = [name for name in ("source", "target", "tsv") if flag_values[name].value]
    if given not in (["source", "target"], ["tsv"]):
        found = " and ".join(f"--{name}" for name in given) or "no text"
        raise UsageError(f"found {found}, expected --source with --target, or --tsv.")
    if flag_values.tsv:
        return {"input": flag_values.tsv, "format": "tsv"}
    return {"input": flag_values.target, "format": "parallel", "source": flag_values.source}


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
