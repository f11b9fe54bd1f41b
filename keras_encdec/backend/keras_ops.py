"""`keras.ops`, imported when an operation is first used.

Modules whose declarations are needed where nothing is computed, such as the samplers, whose options become flags,
take `ops` from here: so `--help` and wrong flags need no Keras.
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
