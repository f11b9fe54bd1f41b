"""The exception for wrong use of a command."""


class UsageError(Exception):
    """Flags that cannot be used so; the command prints the sentence and exits with status 2.

    Args:
        sentence: str. What was found and what was expected, with a full stop: "found --lowercase without
            --tokenize: text in tokens is taken as it is."
    """
