"""`keras.ops`, imported when an operation is first used.

Commands read the declarations of some modules without computing anything: the options of the samplers become flags.
Such modules import `ops` from here, so that `--help` and errors in flags do not wait for Keras.
"""

import importlib
import types
from typing import TYPE_CHECKING, Any


class _LazyModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    from keras import ops as ops
else:
    ops = _LazyModule("keras.ops")
