"""Tests of reading lines and of writing files whole or not at all."""

import contextlib
import gzip
import os
import pathlib
import re
import stat
import subprocess
import tempfile
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.errors import InputError
from keras_encdec.formats.files import InputLines, check_distinct_files, open_output
from keras_encdec.formats.unfinished import remove_unfinished, temporary_folder_beside, unfinished


def naive_lines(data):
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def read(path):
    with InputLines(path) as lines:
        return list(lines)


@settings(max_examples=150, deadline=None)
@given(
    data=st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"\x00\xff", b"\x85", b"bc" * 70000])).map(b"".join)
    | st.binary(),
    compressed=st.booleans(),
)
def test_lines_are_those_of_a_naive_split(tmp_path_factory, data, compressed):
    if not data or (data.startswith(b"\x1f\x8b") and not compressed):
        return
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(gzip.compress(data) if compressed else data)
    with InputLines(path) as lines:
        numbered = [(lines.line_number, line) for line in lines]
    expected = naive_lines(data)
    assert numbered == list(enumerate(expected, start=1))
    assert lines.line_number == len(expected)
    assert lines.ended_with_newline == data.endswith(b"\n")
    assert lines.bytes_read == lines.bytes_total == path.stat().st_size


def test_the_content_decides_what_is_gzipped(tmp_path):
    (tmp_path / "plain.gz").write_bytes(b"one\ntwo")
    (tmp_path / "gzipped.txt").write_bytes(gzip.compress(b"one\ntwo"))
    assert read(tmp_path / "plain.gz") == read(tmp_path / "gzipped.txt") == [b"one", b"two"]


def test_all_members_of_a_gzip_file_are_read(tmp_path):
    members = [gzip.compress(data) for data in (b"one\ntw", b"o\n", b"", b"x" * 300_000, b"\n3")]
    path = tmp_path / "members.gz"
    for padding in (b"", bytes(1000), bytes(300_000)):
        path.write_bytes(b"".join(members) + padding)
        assert read(path) == [b"one", b"two", b"x" * 300_000, b"3"]


def test_lines_are_read_from_a_pipe():
    with subprocess.Popen(["printf", r"one\ntwo\n"], stdout=subprocess.PIPE) as process:
        with InputLines(f"/dev/fd/{process.stdout.fileno()}") as lines:
            assert list(lines) == [b"one", b"two"]
        assert (lines.bytes_total, lines.bytes_read) == (0, 8)


@contextlib.contextmanager
def standard_input(data):
    """Has the data on the standard input in the `with` block."""
    kept = os.dup(0)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(kept, 0)
            os.close(kept)


def test_a_hyphen_is_the_standard_input():
    with standard_input(gzip.compress(b"one\ntwo")):
        assert read("-") == [b"one", b"two"]
    with standard_input(b""), pytest.raises(InputError, match="standard input: found an empty file"):
        InputLines("-")


def test_progress_moves_with_the_lines(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"0123456789\n" * 100_000)
    with InputLines(path) as lines:
        positions = {lines.bytes_read for _ in lines}
    assert len(positions) > 5 and max(positions) == lines.bytes_total == 1_100_000


def test_memory_does_not_grow_with_the_file(tmp_path):
    (tmp_path / "long.gz").write_bytes(gzip.compress(b"0123456789abcdef\n" * 1_000_000, 1))
    tracemalloc.start()
    with InputLines(tmp_path / "long.gz") as lines:
        count = sum(1 for _ in lines)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1_000_000 and peak < 5e6


def numbered_lines(count):
    return b"".join(b"line %d %x\n" % (number, hash((number, "x")) & 0xFFFFFFFF) for number in range(count))


def test_a_truncated_file_is_reported_where_it_broke(tmp_path):
    data = numbered_lines(100_000)
    compressed = gzip.compress(data)
    path = tmp_path / "cut.gz"
    for size in (len(compressed) // 2, len(compressed) - 1, 12):
        path.write_bytes(compressed[:size])
        complete = []
        with pytest.raises(InputError) as caught, InputLines(path) as lines:
            complete.extend(lines)
        # Every line that the file holds was given out before the error.
        available = zlib.decompressobj(31).decompress(path.read_bytes()).count(b"\n")
        assert complete == data.split(b"\n")[:available]
        assert str(caught.value) == (
            f"{path}, line {len(complete) + 1}: found the end of the file inside gzipped data, "
            "expected a complete gzip file; copy or make the file again."
        )


def test_a_file_that_lacks_only_its_trailer_gives_all_its_lines(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"x\n" * 1_000_000)[:-8])
    with InputLines(path) as lines, pytest.raises(InputError, match="line 1000001: found the end of"):
        list(lines)


def test_corrupt_data_are_reported(tmp_path):
    data = numbered_lines(100_000)
    compressed = bytearray(gzip.compress(data))
    compressed[len(compressed) // 2] ^= 0xFF
    for name, content in {
        "flipped.gz": bytes(compressed),
        "checksum.gz": gzip.compress(data)[:-8] + b"\0\0\0\0" + gzip.compress(data)[-4:],
        "garbage.gz": gzip.compress(data) + b"garbage",
        "header.gz": b"\x1f\x8b\x07" + b"\0" * 20,
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            read(tmp_path / name)
        found, _, rest = str(caught.value).partition(", expected a complete gzip file; ")
        assert rest == "copy or make the file again."
        assert re.search(
            r", line 100001: found other data after gzipped data$"
            if name == "garbage.gz"
            else r", line \d+: found corrupt gzipped data \(.+\)$",
            found,
        )


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_reported(tmp_path, content):
    path = tmp_path / "empty"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        InputLines(path)
    assert str(caught.value) == (
        f"{path}: found an empty file, expected at least one line; check how it was made."
    )


def test_a_missing_file_and_a_directory_are_reported(tmp_path):
    with pytest.raises(InputError) as caught:
        InputLines(tmp_path / "missing")
    assert str(caught.value) == (
        f"{tmp_path}/missing: found no such file or directory when trying to read a file; check the path."
    )
    with pytest.raises(InputError, match="found a directory when trying to read a file; name a file"):
        InputLines(tmp_path)


@contextlib.contextmanager
def without_privileges():
    """Drops root, to whom permissions do not apply."""
    if os.geteuid() == 0:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        yield


def test_missing_permissions_are_reported():
    # Not in tmp_path, which lies in a directory that only its owner may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "secret").write_bytes(b"x\n")
        (folder / "secret").chmod(0)
        folder.chmod(0o555)
        with without_privileges():
            with pytest.raises(InputError) as caught:
                InputLines(folder / "secret")
            assert str(caught.value) == (
                f"{folder}/secret: found no permission when trying to read a file; "
                "change the permissions or name another path."
            )
            with pytest.raises(InputError) as caught, open_output(folder / "out"):
                pytest.fail("opened")
            assert str(caught.value) == (
                f"{folder}/out: found no permission when trying to write a file; "
                "change the permissions or name another path."
            )
        folder.chmod(0o755)


def test_a_file_without_lines_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_encdec.formats.files._LONGEST_LINE", 1 << 20)
    (tmp_path / "blob").write_bytes(b"short\n" + bytes(3 << 20))
    with pytest.raises(InputError, match="line 2: found a line of more than 1 MiB, expected lines of text"):
        read(tmp_path / "blob")


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_output_appears_when_complete(tmp_path, name):
    data = numbered_lines(50_000)
    path = tmp_path / name
    with open_output(path) as file:
        for line in data.splitlines(keepends=True):
            file.write(line)
        assert not path.exists()
        assert [entry[0] for entry in os.listdir(tmp_path)] == ["."]
    assert os.listdir(tmp_path) == [name]
    content = path.read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content) == data


def test_equal_content_gives_equal_compressed_bytes(tmp_path):
    for name in ("one.gz", "two.gz"):
        with open_output(tmp_path / name) as file:
            file.write(b"text\n" * 1000)
    content = (tmp_path / "one.gz").read_bytes()
    assert content == (tmp_path / "two.gz").read_bytes()
    assert content[3:8] == bytes(5), "neither a name nor a time in the header"


@pytest.mark.parametrize("name", ["out", "out.gz"])
@pytest.mark.parametrize("error", [KeyError("in the block"), KeyboardInterrupt(), InputError("found it")])
def test_output_does_not_appear_after_an_exception(tmp_path, name, error):
    path = tmp_path / name
    path.write_bytes(b"as it was")
    with pytest.raises(type(error)) as caught, open_output(path) as file:
        file.write(b"x" * 1_000_000)
        raise error
    assert caught.value is error
    assert os.listdir(tmp_path) == [name] and path.read_bytes() == b"as it was"


def test_an_error_of_the_block_is_not_mistaken_for_one_of_the_output(tmp_path):
    with pytest.raises(FileNotFoundError), open_output(tmp_path / "out"):
        os.stat(tmp_path / "other input")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path, mask):
    old = os.umask(mask)
    try:
        with open_output(tmp_path / "out") as file:
            file.write(b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o666 & ~mask


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/file")
    with open_output(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "folder" / "file").read_bytes() == b"new"


def test_a_device_is_written_to_directly():
    with open_output("/dev/null") as file:
        file.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_the_standard_output_is_written_to_directly(capfd, path):
    with open_output(path) as file:
        file.write(b"x\n")
    assert capfd.readouterr().out == "x\n"
    with open_output(path, keep=False) as file:
        file.write(b"x\n")
    assert capfd.readouterr().out == ""


def test_a_reader_that_left_is_no_fault_of_the_disk():
    ours, theirs = os.pipe()
    os.close(ours)
    with pytest.raises(BrokenPipeError), open_output(f"/dev/fd/{theirs}") as file:
        file.write(b"x\n")
    os.close(theirs)


def test_files_for_two_purposes_are_refused(tmp_path):
    check_distinct_files(tmp_path / "a", None, tmp_path / "b", "-", "-")
    with pytest.raises(ValueError, match="found one file for two purposes"):
        check_distinct_files(tmp_path / "a", tmp_path / "b", tmp_path / "b" / ".." / "a")


def test_a_long_name_is_no_obstacle(tmp_path):
    with open_output(tmp_path / ("n" * 255)) as file:
        file.write(b"x")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"x"


def test_an_unusable_place_is_reported_at_once(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    for path, sentence in {
        "missing/out": "found no such file or directory when trying to write a file; check the path",
        "file/out": "found a file where the path needs a directory when trying to write a file; check",
        ".": "found a directory when trying to write a file; name a file",
        "n" * 256: "found a name that is too long for the file system",
    }.items():
        with pytest.raises(InputError) as caught, open_output(os.path.join(tmp_path, path)):
            pytest.fail("opened")
        assert str(caught.value).startswith(f"{tmp_path}/{path}: {sentence}")
    assert os.listdir(tmp_path) == ["file"]


@pytest.fixture
def small_disk(disk):
    return disk("200k")


FULL = "found the disk full when trying to write; free space or name a path on another disk, and run again."


@pytest.mark.parametrize("size", [190_000, 210_000, 5_000_000])
@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_a_full_disk_is_reported_and_left_clean(small_disk, name, size):
    (small_disk / name).write_bytes(b"as it was")
    with pytest.raises(InputError) as caught, open_output(small_disk / name) as file:
        for _ in range(0, size, 1000):
            file.write(os.urandom(1000))
        if size < 200_000:
            raise InputError("this fitted")
    full = f"{small_disk}/{name}: {FULL}"
    assert str(caught.value) == (full if size > 200_000 else "this fitted.")
    assert os.listdir(small_disk) == [name] and (small_disk / name).read_bytes() == b"as it was"


def test_a_full_device_is_reported():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with pytest.raises(InputError) as caught, open_output("/dev/full") as file:
        file.write(b"x")
    assert str(caught.value) == f"/dev/full: {FULL}"


def test_failing_to_rename_is_reported(tmp_path, monkeypatch):
    def refuse(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InputError, match="found the disk full"), open_output(tmp_path / "out") as file:
        file.write(b"x")
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_left_is_removed_and_nothing_of_one_that_lives(tmp_path):
    left = [".out.gz.0123abcd.tmp", ".other.0123abcd.tmp", ".out.gz.notes.tmp", ".out.gz.0123abcd.tmp.mine"]
    for name in left:
        (tmp_path / name).write_bytes(b"half")
    with open_output(tmp_path / "out.gz") as file, open_output(tmp_path / "out.gz") as beside:
        assert set(left) & set(os.listdir(tmp_path)) == set(left[1:])
        file.write(b"first")
        beside.write(b"second")
    assert sorted(os.listdir(tmp_path)) == sorted([*left[1:], "out.gz"])
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b"first"


def test_a_temporary_folder_is_removed_by_its_process_or_by_the_next(tmp_path):
    left = tmp_path / ".out.0123abcd.tmp"
    left.mkdir()
    (left / "half").touch()
    with temporary_folder_beside(f"{tmp_path}/out") as folder:
        assert os.listdir(tmp_path) == [os.path.basename(folder)]
        open(os.path.join(folder, "more"), "w").close()
        with temporary_folder_beside(f"{tmp_path}/out") as other, open_output(tmp_path / "out"):
            assert len({folder, other} & {str(path) for path in tmp_path.iterdir()}) == 2
    assert os.listdir(tmp_path) == ["out"]


def test_what_is_in_the_making_can_be_removed_at_once(tmp_path):
    (tmp_path / "done").touch()
    with contextlib.suppress(InputError), open_output(tmp_path / "file"), unfinished(tmp_path / "folder"):
        (tmp_path / "folder" / "inner").mkdir(parents=True)
        with unfinished(tmp_path / "done"):
            pass
        assert len(os.listdir(tmp_path)) == 3
        remove_unfinished()
        assert os.listdir(tmp_path) == ["done"]
    remove_unfinished()
    assert os.listdir(tmp_path) == ["done"]


def test_a_signal_while_the_file_is_made_leaves_nothing(tmp_path, monkeypatch):
    made = []

    def interrupted(path, *arguments):
        made.append(path)
        os.close(os_open(path, *arguments))
        raise KeyboardInterrupt

    os_open = os.open
    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt), open_output(tmp_path / "out"):
        pass
    assert len(made) == 1 and os.listdir(tmp_path) == []
