"""Entry points of the installed commands: `score` for `encdec-score`, and so on.

Each imports the module of its name and runs its command. An interrupt during the import is also one line.
"""

import functools
import importlib
import sys
from collections.abc import Callable


def __getattr__(name: str) -> Callable[[], None]:
    if name.startswith("_"):
        raise AttributeError(name)
    return functools.partial(_run, name)


def _run(name: str) -> None:
    try:
        importlib.import_module(f"keras_encdec.cli.{name}").COMMAND.run()
    except KeyboardInterrupt:
        print(f"encdec-{name.replace('_', '-')}: interrupted before it began.", file=sys.stderr)
        sys.exit(130)
