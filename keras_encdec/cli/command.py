"""How every command starts, and how it reports what went wrong."""

import os
import sys
import warnings

from absl import app, flags, logging

from keras_encdec.errors import InputError


def run_command(main, required=(), rewrite_arguments=None):
    """Parses flags and runs a command; the console entry points call it.

    Wrong use (an unknown flag, a missing one, flags that contradict, a stray argument) exits with
    status 2, input or output that fails with status 1, each with one sentence on standard error.

    Args:
        main: callable of the remaining arguments, the program's name first. Raises `app.UsageError`
            for wrong use and `InputError` for bad input.
        required: names of flags that must be given.
        rewrite_arguments: callable from the list of arguments to another, before flags are parsed.
    """
    warnings.filterwarnings("ignore", module="keras|tensorflow|jax|torch")
    logging.set_verbosity(logging.ERROR)
    for name in required:
        flags.mark_flag_as_required(name)
    program = os.path.basename(sys.argv[0])

    def parse(arguments):
        try:
            return flags.FLAGS(rewrite_arguments(arguments) if rewrite_arguments else arguments)
        except (flags.Error, ValueError) as error:
            _exit(program, str(error).replace("\n", " "), f"{program} --help lists the flags.", 2)

    def guarded(arguments):
        try:
            if len(arguments) > 1:
                raise app.UsageError(f"found the argument {arguments[1]!r}, expected flags only.")
            main(arguments)
        except app.UsageError as error:
            _exit(program, str(error), f"{program} --help lists the flags.", 2)
        except (InputError, ImportError) as error:
            _exit(program, str(error), "", 1)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            _exit(program, f"{place}{error.strerror or error}; free space, or check the path and its permissions.", "", 1)
        except KeyboardInterrupt:
            _exit(program, "interrupted; no output was written.", "", 130)

    app.run(guarded, flags_parser=parse)


def _exit(program, sentence, remedy, status):
    print(f"{program}: {sentence} {remedy}".rstrip(), file=sys.stderr)
    sys.exit(status)
