"""Entry points of the installed commands: `score` for `encdec-score`, and so on.

Each imports the module of the same name and runs its command. An interrupt during the import also prints one line.
"""

import contextlib
import functools
import importlib.util
import os
import signal
import sys
from collections.abc import Callable


def __getattr__(name: str) -> Callable[[], None]:
    if importlib.util.find_spec(f"keras_encdec.cli.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functools.partial(_run, name)


def _run(name: str) -> None:
    program = f"encdec-{name.replace('_', '-')}"

    def end(*_: object) -> None:
        with contextlib.suppress(OSError):  # standard error may be closed
            os.write(2, f"{program}: interrupted before it began.\n".encode())
        os._exit(130)

    # Python ignores exceptions in callbacks of an import, so that a KeyboardInterrupt could be lost there.
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)
    try:
        command = importlib.import_module(f"keras_encdec.cli.{name}").COMMAND
    except ImportError as error:
        sys.exit(f"{program}: cannot start ({error}); install keras-encdec again with its libraries.")
    signal.signal(signal.SIGINT, interrupted)
    command.run()
