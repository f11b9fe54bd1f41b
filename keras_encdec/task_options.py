"""Options that several tasks share, each declared once.

The options of a task are a `Configuration` that inherits the options that the task shares with others. The task's
command has a flag for each option.
"""

import dataclasses

from keras_encdec.configuration import Configuration, hyperparameter


@dataclasses.dataclass(frozen=True)
class EncodingOption(Configuration):
    """The encoding of a task's text files."""

    encoding: str | None = hyperparameter(
        None,
        "Encoding of the text files that are read and written. Default: UTF-8; bytes that are not UTF-8 are an error.",
    )


@dataclasses.dataclass(frozen=True)
class MalformedLinesOption(Configuration):
    """How a task treats malformed lines."""

    on_error: str = hyperparameter(
        "stop",
        "What happens at a malformed line: an error (stop); or the line is counted, and written with a neutral score "
        "if the output repeats the lines of the input, otherwise left out (keep).",
        choices=("stop", "keep"),
    )


@dataclasses.dataclass(frozen=True)
class ProcessesOption(Configuration):
    """The number of processes that share a task's work."""

    number_of_processes: int | None = hyperparameter(
        None, "Processes that share the work. Default: the number of processors.", minimum=1
    )


def shared_option_names(options: type[Configuration]) -> set[str]:
    """Returns the names of the options that a task inherits from the classes of this module."""
    shared = [base for base in options.__mro__ if issubclass(base, Configuration) and base.__module__ == __name__]
    return {parameter.name for base in shared for parameter in base.hyperparameters()}
