"""Options that several tasks share, each declared once.

A task's options are a `Configuration` that inherits the options which it shares with other tasks. The task's command
has a flag for each option.
"""

import dataclasses

from keras_encdec.configuration import Configuration, hyperparameter


@dataclasses.dataclass(frozen=True)
class EncodingOption(Configuration):
    """The encoding of a task's text files."""

    encoding: str | None = hyperparameter(
        None, "Encoding of the text files that are read and written. Default: UTF-8; other bytes are an error."
    )


@dataclasses.dataclass(frozen=True)
class MalformedLinesOption(Configuration):
    """How a task treats malformed lines."""

    on_error: str = hyperparameter(
        "stop",
        "A malformed line stops the command (stop); or it is counted, and written with a neutral score where lines "
        "are written again, or left out elsewhere (keep).",
        choices=("stop", "keep"),
    )


def shared_option_names(options: type[Configuration]) -> set[str]:
    """The names of the options that a task's options inherit from the classes of this module."""
    shared = [base for base in options.__mro__ if base.__module__ == __name__ and issubclass(base, Configuration)]
    return {parameter.name for base in shared for parameter in base.hyperparameters()}


@dataclasses.dataclass(frozen=True)
class ProcessesOption(Configuration):
    """The number of processes that share a task's work."""

    number_of_processes: int | None = hyperparameter(
        None, "Processes that share the work. Default: as many as there are processors.", minimum=1
    )
