"""How every command starts, and how it reports what went wrong."""

import contextlib
import dataclasses
import gc
import logging
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

from absl import flags

from keras_encdec import __version__
from keras_encdec.cli.interruption import SENTENCE, Interruption
from keras_encdec.cli.standard_streams import (
    drop_unwritten,
    end_as_unread,
    flush_standard_output,
    is_end_of_reading,
    occupy_closed_descriptors,
)
from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import EncdecWarning, InputError


def flag_help(flag_values: flags.FlagValues, own_module: str) -> str:
    """The flags with their help, in the order and the sections in which they were defined.

    Args:
        flag_values: the flags.
        own_module: str. Module that defines the command's own flags, which come first; the name of another module
            is the heading of its flags.

    Returns:
        str, lines.
    """
    sections = flag_values.flags_by_module_dict()
    general = "keras_encdec.cli.command"
    headings = {own_module: "flags", **{name: name for name in sections if name not in (own_module, general)}}
    headings[general] = "of every command"
    parts = []
    for module, heading in headings.items():
        defined = dict.fromkeys(flag for flag in sections.get(module, []) if flag.name in flag_values)
        if defined:
            parts.append(f"{heading}:\n" + "".join(_lines(flag) for flag in defined))
    return "\n".join(parts)


def _lines(flag):
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    short = f"-{flag.short_name}," if flag.short_name else ""
    lines = [flags.text_wrap(f"{short}{name}: {flag.help}", indent=" " * 4, firstline_indent="  ")]
    if flag.default is not None and flag.default != "":
        lines.append(f"    (default: {flag.default_as_str.strip(chr(39))})")
    if flag.parser.syntactic_help:
        lines.append(flags.text_wrap(f"({flag.parser.syntactic_help})", indent=" " * 4))
    return "\n".join(lines) + "\n"


class UsageError(Exception):
    """Flags that cannot be used so; the command prints the sentence and exits with status 2.

    Args:
        sentence: str. What was found and what was expected, with a full stop: "found --lowercase without
            --tokenize: text in tokens is taken as it is."
    """


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of the package, callable in any process and any number of times.

    Its flags are its own, not absl's global ones, so that commands can be imported and run side by side.

    Attributes:
        name: str, such as "encdec-train".
        define_flags: callable that defines the command's flags in the `absl.flags.FlagValues` it is given.
        work: callable of the parsed `FlagValues`; the description in `--help` is its module's docstring. It
            imports what takes long, Keras above all, itself: `--help` and wrong flags need none of it. It returns
            the exit status, or `None` for 0. It raises `UsageError` or `ConfigurationError` for wrong use, and
            `InputError`, `OSError` or `ImportError` for what failed.
        required: names of the flags that must be given.
        flag_names: dict from names of hyper-parameters to those of their flags, where they differ.
        interrupted: str. Message shown when a signal ends the command. Defaults to `SENTENCE`, "interrupted; no
            unfinished output is left."
        serves: bool. Whether the command serves requests until it is ended, instead of going through records.
            Defaults to `False`.

    Example:

    >>> def define_flags(flag_values):
    ...     flags.DEFINE_integer("times", 1, "How often.", lower_bound=1, flag_values=flag_values)
    >>> def main(flag_values):
    ...     print("hello" * flag_values.times)
    >>> Command("encdec-hello", define_flags, main).main(["--times=2"])
    hellohello
    0
    """

    name: str
    define_flags: Callable[[flags.FlagValues], None]
    work: Callable[[flags.FlagValues], int | None]
    required: Sequence[str] = ()
    flag_names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    interrupted: str = SENTENCE
    serves: bool = False

    def main(self, arguments: Sequence[str]) -> int:
        """Runs the command in this process.

        What goes wrong is one sentence on standard error, never an exception.

        Args:
            arguments: list of str, without the program's name.

        Returns:
            the exit status: 0; 2 for wrong use (an unknown flag, a missing one, flags that contradict, a stray
            argument); 1 where the work failed; 128 + n after the signal n, and where nobody reads the output any
            longer, for which programs are sent SIGPIPE.
        """
        return self._guarded(arguments, Interruption(sentence=self.interrupted))

    def run(self) -> None:
        """Runs the command as a program: the entry point of the console script."""
        occupy_closed_descriptors()
        if not self.serves:
            # Records by the million, none of them in a cycle: looking for cycles took three quarters of the time.
            gc.set_threshold(1 << 20)
        status = self._guarded(sys.argv[1:], Interruption(self.name, self.interrupted))
        drop_unwritten()
        if status == 128 + signal.SIGPIPE:
            end_as_unread()
        if status > 128:  # nor is anything waited for that other threads are still at
            os._exit(status)
        gc.freeze()  # nothing that is about to end is looked through for cycles
        sys.exit(status)

    def flag_values(self) -> flags.FlagValues:
        """The command's flags, not parsed yet."""
        flag_values = flags.FlagValues()
        flags.DEFINE_bool("help", False, "Show this help.", short_name="?", flag_values=flag_values)
        flags.DEFINE_string("flagfile", "", "Read flags, one a line, from this file.", flag_values=flag_values)
        self.define_flags(flag_values)
        if "version" not in flag_values:  # else it is the version of an exported model
            flags.DEFINE_bool("version", False, "Show the version.", flag_values=flag_values)
        return flag_values

    def _guarded(self, arguments, interruption):
        with interruption, _quiet_libraries(self.name):
            try:
                status = self._main(arguments)
                flush_standard_output()
                return status
            except BaseException as error:
                # Whatever became of the exception on its way, in the middle of an import for instance.
                if interruption.number is not None:
                    interruption.claim()
                    return self._fail(self.interrupted, 128 + interruption.number)
                return self._report(error)

    def _main(self, arguments):
        if list(arguments) == ["--version"]:  # with a value it may be the version of an exported model
            return self._show_version()
        flag_values = self.flag_values()
        try:
            _, *others = flag_values([self.name, *arguments])
        except (flags.Error, ValueError) as error:
            raise UsageError(f"{error}".replace("\n", " ").rstrip(".") + ".") from None
        if flag_values.help:
            description = sys.modules[self.work.__module__].__doc__
            print(f"{description}\n{flag_help(flag_values, self.define_flags.__module__)}")
            return 0
        if flag_values.version is True:
            return self._show_version()
        for name in self.required:
            if flag_values[name].value is None:
                raise UsageError(f"Flag --{name} must have a value.")
        for name in flag_values:
            value = flag_values[name].value
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(one, float) and not math.isfinite(one):  # which bounds may let pass
                    raise UsageError(f"flag --{name}={one}: expected a finite number.")
        if others:
            raise UsageError(f"found the argument {others[0]!r}, expected flags only.")
        return self.work(flag_values) or 0

    def _show_version(self):
        print(f"{self.name} (keras-encdec {__version__})")
        return 0

    def _report(self, error):
        """Prints what an exception says in one sentence, and gives the exit status; others are raised again."""
        match error:
            case ConfigurationError():
                sentence = error.sentence(lambda name: f"--{self.flag_names.get(name, name)}")
                return self._fail(f"{sentence}. {self.name} --help lists the flags.", 2)
            case UsageError():
                return self._fail(f"{error} {self.name} --help lists the flags.", 2)
            case InputError() | ImportError():
                return self._fail(str(error), 1)
            case BrokenPipeError() if is_end_of_reading(error):
                return 128 + signal.SIGPIPE  # whoever read the output has read enough, as head does
            case OSError():
                place = f"{error.filename}: " if error.filename else ""
                what = error.strerror or error
                return self._fail(f"{place}{what}; free space, or check the path and its permissions.", 1)
            case KeyboardInterrupt():
                return self._fail(self.interrupted, 128 + signal.SIGINT)
            case SystemExit(code=str() as sentence):
                print(sentence, file=sys.stderr)
                return 1
            case SystemExit(code=code):
                return code or 0
        raise error

    def _fail(self, sentence, status):
        try:
            print(f"{self.name}: {sentence}", file=sys.stderr)
        except BrokenPipeError:
            return 128 + signal.SIGPIPE
        return status


@contextlib.contextmanager
def _quiet_libraries(command: str) -> Iterator[None]:
    """Keeps back the warnings of the libraries, which mean nothing to the user of a command.

    Those of this package are a sentence each, like its errors.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    loggers = [logging.getLogger(name) for name in ("absl", "tensorflow")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="keras(?!_encdec)|tensorflow|jax|torch")
        show = warnings.showwarning

        def show_in_one_line(message, category, *where):
            if category is EncdecWarning:
                print(f"{command}: warning: {message}", file=sys.stderr)
            else:
                show(message, category, *where)

        warnings.showwarning = show_in_one_line
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
