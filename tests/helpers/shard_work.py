"""Work on shards for tests of the engines: a WorkOpener that another process can import."""

import dataclasses
import gc
import os
import pathlib
import signal
import warnings

from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.runtime.input_lines import FilePart
from keras_encdec.runtime.shards import Shard, ShardResult

WORDS = ["one", "two", "three", "four", "five", "six"]


def shards(words=WORDS):
    """Yields shards of a word each."""
    for number, word in enumerate(words):
        yield Shard(number, 1, (FilePart("input", number + 1, f"{word}\n".encode()),))


@dataclasses.dataclass(frozen=True)
class Uppercase:
    """Turns lines into uppercase.

    Args:
        deaths: path of a file, to which a worker adds a byte before it kills itself at a shard with the word "deadly".
        times: int. Number of deaths before that shard is processed like any other. The first death comes a shard early
            if that has the word "before".
        notice: str. Warning of each worker when it opens. Defaults to none.
    """

    deaths: pathlib.Path
    times: int = 0
    notice: str = ""

    def __call__(self):
        if self.notice:
            warnings.warn(self.notice, EncdecWarning, stacklevel=2)
        return self.work

    def work(self, shard):
        [part] = shard.parts
        if b"wrong" in part.data:
            raise InputError("found a wrong line", "expected none", path=part.path, line=part.first_line)
        if b"deadly" in part.data or (b"before" in part.data and not self.deaths.exists()):
            with open(self.deaths, "ab") as file:
                file.write(b".")
            if self.deaths.stat().st_size <= self.times:
                os.kill(os.getpid(), signal.SIGKILL)
        return ShardResult((part.data.upper(),), {"process": os.getpid(), "cycles": gc.get_threshold()[0]})
