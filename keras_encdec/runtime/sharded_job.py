"""Runs a job that writes a file line by line, such as scoring, generating, selecting or decoding, in shards."""

import contextlib
import dataclasses
import itertools
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import FilePath, InputError
from keras_encdec.runtime.engines import Engine, WorkOpener
from keras_encdec.runtime.files import is_stream, is_url
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.open_output import STANDARD_OUTPUT, open_output, open_outputs
from keras_encdec.runtime.progress import Progress
from keras_encdec.runtime.settings_files import Json
from keras_encdec.runtime.shard_folder import ShardFolder
from keras_encdec.runtime.shards import Shard, cut
from keras_encdec.runtime.unfinished import directory_lock

# Rough ratio of the size of a gzipped file to its uncompressed size, for an estimate.
GZIP_SHARE = 0.3


@dataclasses.dataclass(frozen=True)
class ShardedJob:
    """A job to run in shards.

    Attributes:
        task: str. The kind of job, such as "scoring".
        inputs: list of paths of files that are read in parallel, line by line.
        outputs: list of paths of the files to write.
        settings: dict of JSON values: all that determines the output, apart from the lines of the inputs.
        window_lines: int. Lines that the work takes at once.
        shard_lines: int. Lines in a shard, rounded up to whole windows; `None` for one window.
        group: see `keras_encdec.runtime.shards.windows`. Optional.
        added_bytes: float. Bytes by which a line of the output is longer than the line of the inputs, for an estimate
            of the disk space.
    """

    task: str
    inputs: Sequence[FilePath]
    outputs: Sequence[FilePath]
    settings: Mapping[str, object]
    window_lines: int
    shard_lines: int | None = None
    group: Callable[[bytes], object] | None = None
    added_bytes: float = 0.0


@dataclasses.dataclass(frozen=True)
class ShardedRun:
    """The result of a job in shards, apart from its files.

    Attributes:
        written: Progress, of the lines. Its `before` counts those in shards that an interrupted earlier run had done.
        counts: list of dict, those of each `ShardResult`, in order.
    """

    written: Progress
    counts: Sequence[Mapping[str, Json]]


def run_in_shards(
    job: ShardedJob,
    engine: Engine,
    opener: WorkOpener,
    prepare: Callable[[Shard], object] = lambda shard: None,
    others: Callable[[], Mapping[FilePath, bytes]] = dict,
    join: Callable[[ShardFolder, int], object] | None = None,
    check: Callable[[dict[str, Json]], object] = lambda counts: None,
    progress: Callable[[InputLines], Progress] = Progress,
    show: Callable[[str], object] | None = None,
) -> ShardedRun:
    """Runs a job in shards, or continues one that was interrupted.

    Args:
        job: ShardedJob.
        engine: Engine.
        opener: WorkOpener.
        prepare: function that is called with the first shard before the work begins, and returns the `context` of all
            shards. Defaults to no context.
        others: function that returns the contents of further outputs by their names; all outputs appear together.
            Defaults to no further outputs.
        join: function that is called with the ShardFolder and the number of shards, all done, and writes the outputs.
            Defaults to `None`: the parts of the shards one after another, and what `others` returns.
        check: see `do_missing`. Defaults to no check.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        show: function that is called with a sentence for the user: the disk space that the job needs. Optional.

    Raises:
        ConfigurationError: a ValueError, if an output is a pipe, a device or standard output.
        InputError: see `Engine.run` and `ShardFolder`; if another such job is at work on the same output.
    """
    check_sharded_outputs(job.outputs)
    windows = -(-(job.shard_lines or 1) // job.window_lines)
    with contextlib.ExitStack() as stack:
        inputs = [stack.enter_context(InputLines(path)) for path in job.inputs]
        if not is_url(job.outputs[0]):
            stack.enter_context(directory_lock(f"{os.fspath(job.outputs[0])}.shards", job.task, "--output"))
        manifest = {**job.settings, "shard_lines": windows * job.window_lines}
        compressed = [f"{path}".endswith(".gz") for path in job.outputs]
        folder = stack.enter_context(ShardFolder(job.outputs[0], manifest, compressed))
        shards = cut(inputs, job.window_lines, windows, job.group)
        first = next(shards)
        context = prepare(first)
        if show:
            show(_space(job, folder, first, inputs))
        written = stack.enter_context(progress(inputs[0]))
        all_shards = (dataclasses.replace(shard, context=context) for shard in itertools.chain([first], shards))
        number = do_missing(folder, engine, opener, all_shards, written, check)
        if join:
            join(folder, number)
        else:
            contents = others()
            with open_outputs([*job.outputs, *contents]) as files:
                folder.join(files[: len(job.outputs)], number)
                for file, content in zip(files[len(job.outputs) :], contents.values(), strict=True):
                    file.write(content)
        counts = [folder.done[i]["counts"] for i in range(number)]
        folder.remove()
    return ShardedRun(written, counts)


def check_sharded_outputs(paths: Iterable[FilePath]) -> None:
    """Checks that a job in shards can write its outputs, before hours of work.

    Raises:
        ConfigurationError: a ValueError, if one is a pipe, a device or standard output.
        InputError: if one cannot be written.
    """
    for path in paths:
        if is_stream(path) or path == STANDARD_OUTPUT:
            expected = "expected a file: a folder next to it keeps the shards"
            raise ConfigurationError("found the output %s with shards, %s", path, expected)
        with open_output(path, keep=False):
            pass


def do_missing(
    folder: ShardFolder,
    engine: Engine,
    opener: WorkOpener,
    shards: Iterable[Shard],
    written: Progress,
    check: Callable[[dict[str, Json]], object] = lambda counts: None,
) -> int:
    """Processes the shards that are missing in a folder, and keeps the results there.

    Args:
        folder: ShardFolder.
        engine: Engine.
        opener: WorkOpener.
        shards: iterable of all Shards of the input.
        written: Progress. The lines of all shards are added to its count, and those of shards already done also to its
            `before`.
        check: function that is called with the counts of each shard, in order, as soon as the shard and all before it
            are done, and may raise an error to stop the work. Defaults to no check.

    Returns:
        int: the number of all shards.

    Raises:
        InputError: see `Engine.run`, `ShardFolder.is_done` and `ShardFolder.keep`; whatever `check` raises.
    """
    number = checked = 0
    failure: InputError | None = None

    def readable() -> Iterator[Shard]:
        nonlocal failure
        try:
            yield from shards
        except InputError as error:  # the input is damaged: the shards before that place are done and kept first
            failure = error

    def missing() -> Iterator[Shard]:
        nonlocal number
        for shard in readable():
            number += 1
            if folder.is_done(shard):
                written.before += shard.lines
                written.add(shard.lines)
            else:
                yield shard

    def check_done() -> None:
        nonlocal checked
        while checked < number and checked in folder.done:
            check(folder.done[checked]["counts"])
            checked += 1

    for shard, result in engine.run(opener, missing()):
        folder.keep(shard, result)
        written.add(shard.lines)
        check_done()
    if failure is not None:
        raise failure
    check_done()  # all shards may have been done before
    return number


def _space(job: ShardedJob, folder: ShardFolder, first: Shard, inputs: Sequence[InputLines]) -> str:
    """Estimates from the first shard how much disk space the shards and the output need."""
    free = "an object store does not say how much is free."
    if not is_url(folder.path):
        free = f"{shutil.disk_usage(folder.path).free / 1e6:,.0f} MB are free."
    files = [lines for lines in inputs if lines.size]  # without pipes
    read, total = sum(lines.size_done for lines in files), sum(lines.size for lines in files)
    if not total:
        return f"{folder.path} keeps the shards; {free}"
    size = sum(len(part.data) for part in first.parts) + job.added_bytes * first.lines
    share = GZIP_SHARE if f"{job.outputs[0]}".endswith(".gz") else 1.0
    needed = math.ceil(2e-6 * size * share * total / max(read, 1))
    return f"The shards in {folder.path} and the output will need about {needed:,} MB of disk space; {free}"
