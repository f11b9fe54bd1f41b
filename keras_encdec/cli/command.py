"""How every command starts, lists its flags, and reports errors."""

import contextlib
import dataclasses
import gc
import math
import os
import posixpath
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from absl import flags

from keras_encdec import __version__
from keras_encdec.cli.process import (
    INTERRUPTED,
    STOPPING,
    STOPPING_SERVER,
    Interruption,
    drop_unwritten,
    escape_unencodable,
    exit_by_sigpipe,
    occupy_closed_descriptors,
    quiet_libraries,
    reader_closed_pipe,
    say,
)
from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.runtime.files import check_distinct_files, is_url, read_contents
from keras_encdec.runtime.workers import STOP_SIGNALS, collect_cycles_rarely

GUIDES = "docs/guides"
# What absl appends to the help of a flag that may be given several times; our texts say so themselves.
REPEATED = ";\n    repeat this option"


class UsageError(Exception):
    """Wrong use of a command's flags. The command prints the sentence and exits with status 2.

    Args:
        sentence: str with a full stop: what was found and what was expected, such as "found no text, expected --source
            with --target, or --tsv."
    """


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of the package, which a process can run any number of times.

    Its flags are its own, not absl's global flags, so that a process can import and run several commands.

    Attributes:
        name: str, such as "encdec-train".
        define_flags: callable that defines the command's flags in an `absl.flags.FlagValues`.
        work: callable that takes the parsed `FlagValues`. It returns the exit status, or `None` for 0. It raises
            `UsageError` or `ConfigurationError` for wrong use, and `InputError`, `OSError` or `ImportError` for failed
            work. It imports Keras and other slow modules itself, so that `--help` and errors in flags do not wait for
            them.
        required: names of the flags that must be given.
        flag_names: dict from hyper-parameter to the name of its flag, where they differ.
        interrupted: str. Message shown when a signal ends the command. Defaults to `INTERRUPTED`, "interrupted; no
            unfinished output is left."
        serves: bool. Whether the command serves requests until it is ended, instead of processing records. Defaults
            to `False`.
        module: str. Name of the module whose docstring is the description in `--help`, and under which absl lists the
            command's own flags. Defaults to the module of `work`.
        example: str. A whole command line, for `--help`. Optional.
        guide: str. Name of the guide in the documentation, such as "nbest", for `--help`; "../tutorial" is the
            tutorial. Optional.
        texts: names of flags whose values are text, in which a leading ~/ stays as it is. In any other flag, it is the
            home directory. Defaults to none.
        single_models: names of flags that name one model. It is an error to give one of them twice on the command line:
            several models look like an ensemble. Defaults to none.

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
    interrupted: str = INTERRUPTED
    serves: bool = False
    module: str | None = None
    example: str = ""
    guide: str = ""
    texts: Collection[str] = ()
    single_models: Collection[str] = ()

    def main(self, arguments: Sequence[str]) -> int:
        """Runs the command in this process, and reports an error as a sentence on standard error, without raising.

        Args:
            arguments: list of str, without the program's name.

        Returns:
            the exit status: 0 for success; 1 if the work failed; 2 for wrong use, such as an unknown or missing flag,
            flags that contradict one another, or an argument that is not a flag; 128 + n after signal n. If the reader
            of the output has closed it, as `head` does, the signal is SIGPIPE.
        """
        return self._guarded(arguments, Interruption(sentence=self.interrupted))

    def run(self) -> None:
        """Runs the command as a program: the entry point of the console script."""
        occupy_closed_descriptors()
        escape_unencodable()
        if not self.serves:
            collect_cycles_rarely()
        notice = STOPPING_SERVER if self.serves else STOPPING
        status = self._guarded(sys.argv[1:], Interruption(self.name, self.interrupted, notice))
        drop_unwritten()
        if status == 128 + signal.SIGPIPE:
            exit_by_sigpipe()
        if status > 128:  # a signal ends the program without waiting for its other threads
            os._exit(status)
        gc.freeze()  # Python need not search for cycles at exit
        sys.exit(status)

    def flag_values(self) -> flags.FlagValues:
        """Defines the command's flags and returns them, not yet parsed."""
        flag_values = flags.FlagValues()
        flags.DEFINE_bool("help", False, "Show this help.", short_name="?", flag_values=flag_values)
        flags.DEFINE_string("flagfile", "", "Read flags from this file, one per line.", flag_values=flag_values)
        self.define_flags(flag_values)
        if "version" not in flag_values:  # some commands have --version=N, the version of an exported model
            flags.DEFINE_bool("version", False, "Show the version.", flag_values=flag_values)
        return flag_values

    def help(self, flag_values: flags.FlagValues) -> str:
        """Returns the text of `--help`: description, usage, example, flags and guide."""
        module = self.module or self.work.__module__
        usage = " ".join([self.name, *(f"--{name}={name.upper()}" for name in self.required), "[flags]"])
        description = sys.modules[module].__doc__ or ""  # python -OO removes it
        parts = [*filter(None, [description.strip()]), f"usage: {usage}"]
        if self.example:
            lines = textwrap.wrap(self.example, 76, subsequent_indent="    ", break_on_hyphens=False)
            parts.append("example:\n  " + " \\\n  ".join(lines))
        parts.append(flag_help(flag_values, module, self.required).rstrip())
        if self.guide:
            page = posixpath.normpath(f"{GUIDES}/{self.guide}.md")
            parts.append(f"guide: {page} in keras-encdec's repository and documentation")
        return "\n\n".join(parts)

    def _guarded(self, arguments: Sequence[str], interruption: Interruption) -> int:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until their exceptions are caught
        with interruption, quiet_libraries(self.name):
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                status = self._main(arguments)
                if sys.stdout is not None:
                    sys.stdout.flush()  # so that a failure is reported here, and not by Python at exit
                return status
            except BaseException as error:
                # A signal raises KeyboardInterrupt, which the code that it interrupts may turn into another exception,
                # such as ImportError.
                if interruption.number is not None:
                    interruption.claim()
                    return self._fail(self.interrupted, 128 + interruption.number)
                return self._report(error)

    def _main(self, arguments: Sequence[str]) -> int:
        if list(arguments) == ["--version"]:  # even in a command that has --version=N
            return self._show_version()
        flag_values = self.flag_values()
        try:
            _, *others = flag_values([self.name, *_with_remote_flags(arguments)])
        except (flags.Error, ValueError) as error:
            raise UsageError(_flag_sentence(error)) from None
        if flag_values.help:
            print(self.help(flag_values))
            return 0
        if flag_values.version is True:
            return self._show_version()
        if missing := [f"--{name}" for name in self.required if flag_values[name].value is None]:
            names = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
            raise UsageError(f"{names} {'is' if len(missing) == 1 else 'are'} missing.")
        for name, item in _given_items(flag_values):
            if item == "" and flag_values[name].present:  # such as from a shell variable that is not set
                raise UsageError(f"found an empty --{name}, expected a value.")
            # Bounds may allow inf, and no comparison refuses nan.
            if isinstance(item, float) and not math.isfinite(item):
                raise UsageError(f"flag --{name}={item}: expected a finite number.")
        if others:
            raise UsageError(f"found the argument {others[0]!r}, expected flags only.")
        for name in _given_again(arguments, flag_values):
            if name in self.single_models:
                raise UsageError(f"found --{name} more than once, expected one model, not an ensemble.")
            say(f"{self.name}: found --{name} more than once; only the last counts, {flag_values[name].value}.")
        for name in set(flag_values) - set(self.texts):
            flag_values[name].value = _with_home(flag_values[name].value)
        _check_working_directory()
        with self._progress(flag_values):
            return self.work(flag_values) or 0

    @contextlib.contextmanager
    def _progress(self, flag_values: flags.FlagValues) -> Iterator[None]:
        """Records and serves the progress of the work, if the flags of `define_progress_flags` are given."""
        names = "progress_file", "metrics_port"
        path, port = (flag_values[name].value if name in flag_values else None for name in names)
        if path:
            _check_progress_file(path, flag_values)
        with contextlib.ExitStack() as stack:
            record = None
            if not self.serves and (path or port is not None):
                from keras_encdec.runtime.progress_state import ProgressRecord

                record = stack.enter_context(ProgressRecord(self.name, path))
            if port is not None:
                from keras_encdec.runtime.metrics import served_metrics

                stack.enter_context(served_metrics(self.name, port, record))
            yield

    def _show_version(self) -> int:
        print(f"{self.name} (keras-encdec {__version__})")
        return 0

    def _report(self, error: BaseException) -> int:
        """Prints a user error as one sentence and returns the exit status; raises any other exception."""
        match error:
            case ConfigurationError():
                sentence = error.sentence(lambda name: f"--{self.flag_names.get(name, name)}")
                return self._fail(f"{sentence}. {self.name} --help lists the flags.", 2)
            case UsageError():
                return self._fail(f"{error} {self.name} --help lists the flags.", 2)
            case ModuleNotFoundError():  # the package itself raises ImportError, with a sentence
                sentence = f"a library is not installed ({error}); install keras-encdec again with its libraries."
                return self._fail(sentence, 1)
            case InputError() | ImportError():
                return self._fail(str(error), 1)
            case BrokenPipeError() if reader_closed_pipe(error):
                return 128 + signal.SIGPIPE  # the reader of the output has read enough, as head does
            case FileNotFoundError() if "temporary directory" in str(error):  # of tempfile, even in imports
                return self._fail("found no writable folder for temporary files; set TMPDIR to the path of one.", 1)
            case OSError():
                place = f"{error.filename}: " if error.filename else ""
                what = error.strerror or error
                return self._fail(f"{place}{what}; free space, or check the path and its permissions.", 1)
            case MemoryError():
                where = f" ({error})" if str(error) else ""
                return self._fail(f"found too little memory{where}; free some, or raise its limit (ulimit -v).", 1)
            case KeyboardInterrupt():
                return self._fail(self.interrupted, 128 + signal.SIGINT)
            case SystemExit(code=str() as sentence):
                print(sentence, file=sys.stderr)
                return 1
            case SystemExit(code=int() as status):
                return status
            case SystemExit():
                return 0
        raise error

    def _fail(self, sentence: str, status: int) -> int:
        try:
            print(f"{self.name}: {sentence}", file=sys.stderr)
        except BrokenPipeError:
            return 128 + signal.SIGPIPE
        return status


def _flag_sentence(error: Exception) -> str:
    """Returns absl's error in the flags as a sentence."""
    cause = error.__context__
    if isinstance(error, flags.CantOpenFlagFileError) and isinstance(cause, OSError):
        return f"--flagfile={cause.filename} cannot be read: {cause.strerror}."
    sentence = re.sub(r"\('Non-boolean argument to boolean flag', .*\)", "expected true or false", str(error))
    return sentence.replace("\n", " ").removesuffix(" ?").rstrip(".") + "."


def _check_working_directory() -> None:
    """Checks that the working directory exists: without it, paths and libraries fail in ways that do not name it."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise InputError("found that the working directory has been removed", "", "change to another one") from error


def _check_progress_file(path: str, flag_values: flags.FlagValues) -> None:
    """Checks that the progress, which replaces its file again and again, has a file of its own."""
    if path == "-":
        raise UsageError("found --progress_file=-, expected a file that can be replaced; --metrics_port needs no file.")
    for name, item in _given_items(flag_values):
        if isinstance(item, str) and name != "progress_file":
            check_distinct_files(path, item)


def _given_items(flag_values: flags.FlagValues) -> Iterator[tuple[str, object]]:
    """Yields the name of each flag with its value, or with each item of a value that is a list."""
    for name in flag_values:
        value = flag_values[name].value
        yield from ((name, item) for item in (value if isinstance(value, (list, tuple)) else [value]))


def _given_again(arguments: Sequence[str], flag_values: flags.FlagValues) -> list[str]:
    """Returns the names of the flags that the command line itself gives more than once, unless all their values count.

    A flag may override the same flag in a --flagfile without notice.
    """
    names = [argument[2:].partition("=")[0] for argument in arguments if argument.startswith("--")]
    single = (name for name in dict.fromkeys(names) if names.count(name) > 1 and name in flag_values)
    return [name for name in single if name != "flagfile" and not isinstance(flag_values[name], flags.MultiFlag)]


def _with_home(value: object) -> object:
    """Replaces ~/ at the start of a path, of each path in a list, and after NAME=: shells leave it in --flag=~/path."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_with_home, value))
    if isinstance(value, str) and (found := re.match(r"([^/=]*=)?(~/.*)", value, re.DOTALL)):
        return (found[1] or "") + os.path.expanduser(found[2])
    return value


def _with_remote_flags(arguments: Sequence[str]) -> list[str]:
    """Replaces each `--flagfile=URL`, which absl cannot read, with the flags in that file."""
    replaced: list[str] = []
    for argument in arguments:
        name, _, path = argument.lstrip("-").partition("=")
        if name != "flagfile" or not is_url(path):
            replaced.append(argument)
            continue
        lines = [line.strip() for line in read_contents(path).decode(errors="replace").splitlines()]
        replaced += _with_remote_flags([line for line in lines if line and not line.startswith(("#", "//"))])
    return replaced


def flag_help(flag_values: flags.FlagValues, own_module: str, required: Collection[str] = ()) -> str:
    """Formats flags for `--help`: first those that must be given, then the others in the order of their definition.

    Args:
        flag_values: the flags.
        own_module: str. Name of the module under which absl lists the command's own flags. They are the first section
            after the required ones. The heading of another section is the name under which absl lists its flags. The
            flags that every command has are the last section.
        required: names of the flags that must be given. Defaults to none.

    Returns:
        str, lines.
    """
    sections = flag_values.flags_by_module_dict()
    headings = {own_module: "flags", **{name: name for name in sections if name not in (own_module, __name__)}}
    headings[__name__] = "flags of every command"
    parts = {"required flags": [flag_values[name] for name in required]}
    for module, heading in headings.items():
        defined = dict.fromkeys(flag for flag in sections.get(module, []) if flag.name in flag_values)
        parts[heading] = [flag for flag in defined if flag.name not in required]
    return "\n".join(f"{heading}:\n" + "".join(map(_lines, defined)) for heading, defined in parts.items() if defined)


def _lines(flag: flags.Flag) -> str:
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    short = f"-{flag.short_name}," if flag.short_name else ""
    text = flag.help.partition(REPEATED)[0]
    lines = [flags.text_wrap(f"{short}{name}: {text}", indent=" " * 4, firstline_indent="  ")]
    if flag.default_as_str is not None and flag.default != "" and flag.default is not False:
        lines.append(f"    (default: {flag.default_as_str.strip(chr(39))})")
    if flag.parser.syntactic_help:
        lines.append(flags.text_wrap(f"({flag.parser.syntactic_help})", indent=" " * 4))
    return "\n".join(lines) + "\n"
