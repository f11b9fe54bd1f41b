"""Tests of shards: how files are cut, and what a folder of shards keeps."""

import json
import os
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_or_gzipped import read, write

from keras_encdec.errors import InputError
from keras_encdec.runtime.input_lines import FilePart, InputLines
from keras_encdec.runtime.open_output import open_output
from keras_encdec.runtime.shards import DONE, MANIFEST, Shard, ShardFolder, ShardResult, cut, windows


def group(line):
    return line[:1]


@settings(max_examples=80)
@given(
    lines=st.lists(st.sampled_from([b"", b"a", b"ab", b"b c", b"\r"]), min_size=1, max_size=40),
    newline=st.booleans(),
    size=st.integers(1, 6),
    number=st.integers(1, 3),
    grouped=st.booleans(),
)
def test_shards_are_the_lines_in_order_and_whole_windows(tmp_path_factory, lines, newline, size, number, grouped):
    data = b"\n".join(lines) + b"\n" * (newline or not lines[-1])
    path = write(tmp_path_factory.mktemp("cut") / "lines.gz", data)
    key = group if grouped else None
    with InputLines(path) as file:
        shards = list(cut([file], size, number, key))
    assert b"".join(shard.parts[0].data for shard in shards) == data
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert sum(shard.lines for shard in shards) == len(data.removesuffix(b"\n").split(b"\n"))
    again, first = [], 1
    for shard in shards:
        part = shard.parts[0]
        assert (part.path, part.first_line) == (str(path), first)
        with InputLines(part) as read_again:
            again += windows(list(read_again), size, key)
            assert read_again.line_number == first + shard.lines - 1
        first += shard.lines
    with InputLines(path) as file:
        assert again == list(windows(file, size, key)), "a shard is cut into the windows of the whole file"
    assert all(len(window) >= size for window in again[:-1])
    if grouped:
        assert all(group(a[-1]) != group(b[0]) or len(a) == 2 * size for a, b in zip(again, again[1:], strict=False))


def test_files_of_different_lengths_are_an_error(tmp_path):
    paths = [write(tmp_path / name, b"x\n" * lines) for name, lines in (("a", 5), ("b", 7))]
    with InputLines(paths[0]) as first, InputLines(paths[1]) as second:
        with pytest.raises(InputError, match=r"a: found 5 lines, and 7 lines in .*b, expected the same number"):
            list(cut([first, second], 2))


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


@pytest.mark.parametrize("name", [MANIFEST, f"000000000{DONE}"])
def test_a_damaged_manifest_or_record_is_named(output, name):
    pathlib.Path(f"{output}.shards").mkdir()
    folder(output).keep(shards()[0], result(shards()[0]))
    with open(f"{output}.shards/{name}", "r+b") as file:
        file.write(b"damage")
    with pytest.raises(InputError, match=f"{name}.*remove {output}.shards to begin again"):
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
