"""The folder that keeps the results of a job in shards.

Each shard is done exactly once, however often the job is killed and started again.
"""

import contextlib
import hashlib
import io
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.runtime.decompression import BrokenGzip, decompressed
from keras_encdec.runtime.files import exists, is_url, joined, read_contents, remove
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.remote import remote_contents
from keras_encdec.runtime.settings_files import Json, read_parsed
from keras_encdec.runtime.shards import Shard, ShardResult

# Name of the manifest, and the suffix of the records of finished shards, whose names begin with the shard's number.
MANIFEST, DONE = "manifest.json", ".done.json"
FORMAT = 4
_BLOCK = 1 << 20


class ShardFolder(contextlib.AbstractContextManager["ShardFolder"]):
    """The folder next to an output, local or remote, that keeps finished shards until all are done.

    It holds a manifest, which describes the job; a file for each shard and output; and a record for each finished
    shard. Each of these files appears when it is complete, the record after the others. A job that is killed at any
    moment, even by a power failure, can therefore continue; with an object store, even on another machine.

    Use it as a context manager: at the end, the folder is removed unless a shard is done.

    Args:
        output: path of the first output file. The folder's name is this path with ".shards" after it.
        manifest: dict of JSON values, which describes the job: inputs, models and settings. A job can use the shards
            in the folder only if its manifest is the same.
        compressed: list of bool, for each output whether its parts are compressed in the folder.

    Attributes:
        path: str. Path or URL of the folder.
        done: dict from the number of a shard to its record, a dict.

    Raises:
        InputError: if the folder belongs to a job with another manifest (the error names what differs), or cannot be
            read or written.
    """

    def __init__(self, output: FilePath, manifest: Mapping[str, object], compressed: Sequence[bool]) -> None:
        self.path = f"{os.fspath(output)}.shards"
        self.done: dict[int, dict[str, Json]] = {}
        self._compressed = compressed
        self._is_missing = False  # whether one of the shards so far is not done
        expected = {"format": FORMAT, **json.loads(json.dumps(manifest))}
        manifest_path = joined(self.path, MANIFEST)
        if exists(manifest_path):
            self._check(expected)
            self.done = {record["shard"]: record for record in self._records()}
        else:
            write_file(manifest_path, (json.dumps(expected, indent=1) + "\n").encode())

    def __exit__(self, *exception: object) -> None:
        if not self.done:
            self.remove()

    def is_done(self, shard: Shard) -> bool:
        """Returns whether a shard is done. Call it for all shards, in order.

        A shard whose lines have changed since they were processed also counts as not done if a shard before it is not
        done: if a malformed line was removed from the earlier shard, the lines of all later shards have moved.

        Raises:
            InputError: if the lines differ and all shards before are done: the input has changed.
        """
        record = self.done.get(shard.number)
        if record is None:
            self._is_missing = True
            return False
        if (record["lines"], record["sha256"]) != (shard.lines, shard.checksum):
            if self._is_missing:
                del self.done[shard.number]
                remove(self._record(shard.number))
                return False
            found = f"found that {shard} have changed since they were processed"
            expected = "expected the same input"
            remedy = f"restore the input, or remove {self.path} to begin again"
            raise InputError(found, expected, remedy, shard.parts[0].path)
        return True

    def keep(self, shard: Shard, result: ShardResult) -> None:
        """Writes the result of a shard, and then the shard's record.

        Raises:
            InputError: if the disk is full or writing fails for another reason. The shard then does not count as done.
        """
        outputs = []
        for number, data in enumerate(result.outputs):
            path = self._part(shard.number, number)
            write_file(path, data)
            outputs.append({"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        values = {
            "shard": shard.number,
            "lines": shard.lines,
            "sha256": shard.checksum,
            "outputs": outputs,
            "counts": result.counts,
        }
        record = {**values, "checksum": record_checksum(values)}
        write_file(self._record(shard.number), (json.dumps(record) + "\n").encode())
        self.done[shard.number] = record

    def read(self, shard: int, number: int) -> bytes:
        """Returns the part of an output that a finished shard made. Shards and outputs are numbered from 0.

        Raises:
            InputError: if the part is missing or damaged. The shard then no longer counts as done, so that the next run
                of the job does it again.
        """
        path, expected = self._part(shard, number), self.done[shard]["outputs"][number]
        data = part_content(path)
        if hashlib.sha256(data).hexdigest() != expected["sha256"]:
            del self.done[shard]
            remove(self._record(shard))
            remedy = "run the same command again, which processes this part again"
            raise InputError("found a damaged part", "expected what was written", remedy, path)
        return data

    def join(self, outputs: Sequence[BinaryIO], number_of_shards: int) -> None:
        """Writes the parts of all shards to the outputs, in order.

        Raises:
            InputError: see `read`.
        """
        for shard in range(number_of_shards):
            for number, output in enumerate(outputs):
                output.write(self.read(shard, number))

    def remove(self) -> None:
        """Removes the folder, if that is possible: the output does not depend on it."""
        with contextlib.suppress(InputError):
            remove(self.path)

    def _part(self, shard: int, output: int) -> str:
        suffix = ".gz" if self._compressed[output] else ""
        return joined(self.path, f"{shard:09}.{output}{suffix}")

    def _record(self, shard: int) -> str:
        return joined(self.path, f"{shard:09}{DONE}")

    def _check(self, expected: Mapping[str, object]) -> None:
        """Compares the manifest in the folder with that of the job."""
        path = joined(self.path, MANIFEST)
        try:
            found = read_parsed(path, json.loads)
        except (OSError, ValueError) as error:
            remedy = f"remove {self.path} to begin again"
            raise InputError(f"found a file that cannot be read ({error})", "", remedy, path) from None
        for name in sorted({*found, *expected}):
            before, now = found.get(name), expected.get(name)
            if isinstance(before, dict) and isinstance(now, dict):
                key = next((key for key in {**before, **now} if before.get(key) != now.get(key)), None)
                name, before, now = f"{name} {key}", before.get(key or ""), now.get(key or "")
            if before != now:
                raise InputError(
                    f"found the {name} {json.dumps(now)}",
                    f"expected {json.dumps(before)}, with which the shards in this folder were processed",
                    "run the same command again, or remove the folder to begin again",
                    self.path,
                )

    def _records(self) -> Iterator[dict[str, Json]]:
        """Yields the records of the shards that are done. A shard with a damaged record is done again."""
        if is_url(self.path):
            contents = remote_contents(self.path, DONE)
        else:
            with explained(self.path, "to read a folder"):
                contents = {path.name: path.read_bytes() for path in pathlib.Path(self.path).glob(f"*{DONE}")}
        for content in contents.values():
            with contextlib.suppress(ValueError, AttributeError, RecursionError):
                record = json.loads(content)
                if record.get("checksum") == record_checksum(record):
                    yield record


def record_checksum(record: Mapping[str, Json]) -> str:
    """Returns the checksum of the record of a finished shard, which covers all its other values."""
    values = {name: value for name, value in record.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def part_content(path: FilePath) -> bytes:
    """Reads the result of a shard, decompressed if its name ends in .gz; no data if it is missing or damaged."""
    with contextlib.suppress(InputError, BrokenGzip):
        data = read_contents(path)
        if os.fspath(path).endswith(".gz"):
            data = b"".join(decompressed(io.BufferedReader(io.BytesIO(data)), _BLOCK))  # type: ignore[arg-type]
        return data
    return b""
