"""Commands made of a task and its options."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from absl import flags

from keras_encdec.cli.command import SENTENCE, Command
from keras_encdec.cli.configuration_flags import configuration_from_flags, define_configuration_flags
from keras_encdec.configuration import Configuration

Options = TypeVar("Options", bound=Configuration)


class Repeated(str):
    """Help of an argument whose flag may be given several times. Its value is a list, empty without the flag."""


def task_command(
    name: str,
    work: Callable[[dict[str, Any], Options], int | None],
    options: type[Options],
    required: Mapping[str, str],
    optional: Mapping[str, str] | None = None,
    flag_names: Mapping[str, str] | None = None,
    interrupted: str = SENTENCE,
) -> Command:
    """A command with a flag for each file that a task reads or writes, and for each of its options.

    Args:
        name: str, such as "encdec-score".
        work: callable of the arguments, a dict of name to value, and the options. Its module's docstring is the
            description in `--help`. See `Command` for what it may return and raise, and for what it imports itself.
        options: the configuration class of the options. Each has a flag, made from its declaration.
        required: dict of argument to help, for files and folders that must be given. The help of an argument that
            may be given several times is `Repeated`.
        optional: dict of argument to help, for those that may be given. Defaults to none.
        flag_names: dict of argument or option to the name of its flag, where they differ. Optional.
        interrupted: str. See `Command`.

    Returns:
        Command.

    Example:

        COMMAND = task_command("encdec-score", main, ScoringOptions, {"input": "File to score."})
    """
    names, arguments = flag_names or {}, {**required, **(optional or {})}
    module = work.__module__

    def define_flags(flag_values: flags.FlagValues) -> None:
        for argument, text in arguments.items():
            kind = flags.MultiFlag if isinstance(text, Repeated) else flags.Flag
            flag = kind(flags.ArgumentParser(), None, names.get(argument, argument), None, text)
            flag.help = text  # without what absl adds to the help of a MultiFlag
            flags.DEFINE_flag(flag, flag_values, module_name=module)
        define_configuration_flags(flag_values, options, module, names)

    def main(flag_values: flags.FlagValues) -> int | None:
        chosen = configuration_from_flags(options, flag_values, flag_names=names)
        values = {argument: flag_values[names.get(argument, argument)].value for argument in arguments}
        return work({name: _value(value, arguments[name]) for name, value in values.items()}, chosen)

    main.__module__ = define_flags.__module__ = module
    needed = [names.get(argument, argument) for argument in required]
    return Command(name, define_flags, main, needed, names, interrupted)


def _value(value: Any, text: str) -> Any:
    return value or [] if isinstance(text, Repeated) else value


def show_summary(summary: Any) -> None:
    """Prints on standard error what a task did and, if its summary has them, remarks, a line each."""
    print(summary, file=sys.stderr)
    for remark in getattr(summary, "remarks", ()):
        print(remark, file=sys.stderr)
