"""Runs a command of the package in this process."""

import contextlib
import io
import subprocess


def in_process(command, *arguments):
    """Runs a `keras_encdec.cli.command.Command`.

    Args:
        command: Command.
        *arguments: its flags; each is made a str.

    Returns:
        `subprocess.CompletedProcess` with the exit status and what it printed.
    """
    arguments = [str(argument) for argument in arguments]
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()) as errors:
        status = command.main(arguments)
    return subprocess.CompletedProcess([command.name, *arguments], status, output.getvalue(), errors.getvalue())
