"""The flag --weight, and what commands that read n-best lists tell of missing sentences."""

import sys

from absl import flags

from keras_encdec.cli.usage_error import UsageError


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
