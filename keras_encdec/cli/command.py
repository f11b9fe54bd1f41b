"""How every command starts, and how it reports what went wrong."""

import gc
import os
import signal
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
    _show_in_help(main)
    _stop_at_signals()
    # Records by the million, none of them in a cycle: looking for cycles took three quarters of the time.
    gc.freeze()
    gc.set_threshold(1 << 20)

    def parse(arguments):
        try:
            return flags.FLAGS(rewrite_arguments(arguments) if rewrite_arguments else arguments)
        except (flags.Error, ValueError) as error:
            _exit(program, f"{error}".replace("\n", " ").rstrip(".") + ".", f"{program} --help lists the flags.", 2)
        except SystemExit:
            sys.exit(0)  # absl takes --help for a failure

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
            remedy = "free space, or check the path and its permissions."
            _exit(program, f"{place}{error.strerror or error};", remedy, 1)
        except KeyboardInterrupt as error:
            number = error.args[0] if error.args else signal.SIGINT
            _exit(program, "interrupted; unfinished output was removed.", "", 128 + number)

    app.run(guarded, flags_parser=parse)


def _stop_at_signals():
    """Ends the command at an interrupt or termination signal, by an exception that lets it tidy up."""
    received = []

    def stop(number, frame):
        received.append(number)
        if frame and frame.f_code in [getattr(callback, "__code__", None) for callback in gc.callbacks]:
            # Python ignores exceptions in here (JAX has such a callback): once more, a moment later.
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        else:
            raise KeyboardInterrupt(received[0])

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, stop)


def _show_in_help(main):
    """Makes `--help` show the command's description and all of this package's flags.

    absl shows those of the module that runs as the program, which an entry point is not.
    """
    sys.modules["__main__"].__doc__ = sys.modules[main.__module__].__doc__ + "\n"
    for module, defined in flags.FLAGS.flags_by_module_dict().items():
        if module.startswith("keras_encdec"):
            for flag in defined:
                flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)


def _exit(program, sentence, remedy, status):
    print(f"{program}: {sentence} {remedy}".rstrip(), file=sys.stderr)
    sys.exit(status)
