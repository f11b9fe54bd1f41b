"""Tests of the folder of shards: a job that was interrupted continues, and what is damaged is done again."""

import json
import os
import pathlib

import pytest
from plain_or_gzipped import read

from keras_encdec.errors import InputError
from keras_encdec.runtime.input_lines import FilePart
from keras_encdec.runtime.open_output import open_output
from keras_encdec.runtime.shard_folder import DONE, MANIFEST, ShardFolder
from keras_encdec.runtime.shards import Shard, ShardResult


def shards():
    return [Shard(i, 2, (FilePart("input", 2 * i + 1, b"%d\n\n" % i),)) for i in range(3)]


def result(shard):
    return ShardResult((shard.parts[0].data * 2, b"aligned\n"), {"number": shard.number})


@pytest.fixture(params=["output", "output.gz"])
def output(request, tmp_path):
    return tmp_path / request.param


def folder(output, **changed):
    manifest = {"settings": {"length": True, "columns": [1, 2]}, "shard_lines": 7} | changed
    return ShardFolder(output, manifest, [output.name.endswith(".gz"), False])


def test_an_interrupted_folder_is_continued_and_its_shards_are_joined(output):
    pathlib.Path(f"{output}.shards").mkdir()
    first, second, third = shards()
    folder(output).keep(third, result(third))
    with pytest.raises(TypeError):  # its parts are there, but not its record
        folder(output).keep(second := shards()[1], ShardResult(result(second).outputs, {"no": object()}))
    with folder(output) as again:
        assert [again.is_done(shard) for shard in (first, second, third)] == [False, False, True]
        again.keep(first, result(first))
        again.keep(second, result(second))
    again = folder(output)
    assert all(map(again.is_done, shards()))
    assert [again.done[i]["counts"]["number"] for i in range(3)] == [0, 1, 2]
    with open_output(output) as file, open_output(f"{output}.2") as other:
        again.join([file, other], 3)
    assert read(output) == b"".join(shard.parts[0].data * 2 for shard in shards())
    assert pathlib.Path(f"{output}.2").read_bytes() == b"aligned\n" * 3
    again.remove()
    assert not os.path.exists(f"{output}.shards")


def test_another_job_and_a_changed_input_are_refused(output):
    pathlib.Path(f"{output}.shards").mkdir()
    first, *_ = shards()
    folder(output).keep(first, result(first))
    for changed, sentence in (
        ({"shard_lines": 8}, "found the shard_lines 8, expected 7, with which"),
        ({"settings": {"length": False, "columns": [1, 2]}}, "found the settings length false, expected true"),
        ({"model": {"best.keras": "ab"}}, 'found the model {"best.keras": "ab"}, expected null'),
    ):
        with pytest.raises(InputError, match=f"{output}.shards: ") as error:
            folder(output, **changed)
        assert sentence in str(error.value)
    changed = Shard(0, 2, (FilePart("input", 1, b"0\nx\n"),))
    with pytest.raises(InputError, match="input: found that lines 1 to 2 have changed since they were processed"):
        folder(output).is_done(changed)


def test_a_damaged_part_is_done_again(output):
    pathlib.Path(f"{output}.shards").mkdir()
    for shard in shards():
        folder(output).keep(shard, result(shard))
    [part] = [path for path in pathlib.Path(f"{output}.shards").glob("*1.0*") if not path.name.endswith(DONE)]
    data = part.read_bytes()
    for damaged in (data[:-3], data[:12] + bytes([data[12] ^ 1]) + data[13:] if len(data) > 12 else b"x", None):
        if damaged is None:
            part.unlink()
        else:
            part.write_bytes(damaged)
        joined = folder(output)
        with pytest.raises(InputError, match="found a damaged part.*run the same command again"):
            with open_output(output) as file, open_output(f"{output}.2") as other:
                joined.join([file, other], 3)
        again = folder(output)
        assert [again.is_done(shard) for shard in shards()] == [True, False, True]
        again.keep(shards()[1], result(shards()[1]))
        assert part.read_bytes() == data


def test_a_shard_with_a_damaged_record_is_done_again(output):
    pathlib.Path(f"{output}.shards").mkdir()
    for shard in shards():
        folder(output).keep(shard, result(shard))
    record = pathlib.Path(f"{output}.shards/000000001{DONE}")
    content = record.read_bytes()
    flipped = content.replace(b'"lines": 2', b'"lines": 3')
    for damaged in (b"damage", b"{}", b"[]", b"", flipped, content.replace(b'"number": 1', b'"number": 3')):
        record.write_bytes(damaged)
        again = folder(output)
        assert [again.is_done(shard) for shard in shards()] == [True, False, True]
        again.keep(shards()[1], result(shards()[1]))
        assert record.read_bytes() == content


def test_a_damaged_manifest_is_named(output):
    pathlib.Path(f"{output}.shards").mkdir()
    folder(output)
    for damaged in (b"damage", b'["format"]'):
        pathlib.Path(f"{output}.shards/{MANIFEST}").write_bytes(damaged)
        with pytest.raises(InputError, match=f"{MANIFEST}.*remove {output}.shards to begin again"):
            folder(output)


def test_an_error_before_the_first_shard_leaves_no_folder(output):
    for done in (False, True):
        pathlib.Path(f"{output}.shards").mkdir()
        with pytest.raises(KeyError), folder(output) as kept:
            if done:
                kept.keep(shards()[0], result(shards()[0]))
            raise KeyError
        assert os.path.exists(f"{output}.shards") == done
    assert json.loads(pathlib.Path(f"{output}.shards", MANIFEST).read_text())["shard_lines"] == 7


def test_after_a_removed_line_only_shards_after_it_are_done_again(output):
    pathlib.Path(f"{output}.shards").mkdir()
    first, second, third = shards()
    for shard in (first, third):
        folder(output).keep(shard, result(shard))
    shifted = Shard(2, 1, (FilePart("input", 5, b"2\n"),))
    with folder(output) as again:
        assert [again.is_done(shard) for shard in (first, second, shifted)] == [True, False, False]
    assert not folder(output).is_done(third)
