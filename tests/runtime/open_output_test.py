"""Tests of files that appear only when they are complete."""

import contextlib
import gzip
import os
import pathlib
import stat
import tempfile

import pytest
from numbered_lines import numbered_lines

from keras_encdec.errors import InputError
from keras_encdec.runtime.files import check_writable
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.open_output import open_output, open_outputs


@contextlib.contextmanager
def without_privileges():
    """Drops root privileges, because permissions do not apply to root."""
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
                f"{folder}/secret: found that permission is denied when trying to read a file; "
                "change the permissions or name another path."
            )
            with pytest.raises(InputError) as caught, open_output(folder / "out"):
                pytest.fail("opened")
            assert str(caught.value) == (
                f"{folder}/out: found that permission is denied when trying to write a file; "
                "change the permissions or name another path."
            )
        folder.chmod(0o755)


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


@pytest.mark.parametrize("name", ["scored.bz2", "scored.xz", "scored.zst", "s3://bucket/scored.bz2"])
def test_a_name_of_another_compression_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    ending = name[name.index(".") :]
    for use in (check_writable, lambda path: open_output(path).__enter__()):
        with pytest.raises(InputError, match=f"{name}: found a name that ends in {ending}, expected the name of a"):
            use(name)
    assert not os.listdir()


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


def test_an_os_error_of_the_block_is_raised_unchanged(tmp_path):
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


@pytest.mark.parametrize("before, after", [(0o600, 0o600), (0o664, 0o664), (0o444, 0o644)])
def test_a_file_that_is_replaced_hands_on_its_permissions(tmp_path, before, after):
    """So that a private file stays private."""
    (tmp_path / "out").touch()
    (tmp_path / "out").chmod(before)
    with open_output(tmp_path / "out") as file:
        file.write(b"x")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == after


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


def test_a_closed_pipe_is_a_broken_pipe_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with pytest.raises(BrokenPipeError), open_output(f"/dev/fd/{write_end}") as file:
        file.write(b"x\n")
    os.close(write_end)


def test_a_name_may_have_255_characters(tmp_path):
    with open_output(tmp_path / ("n" * 255)) as file:
        file.write(b"x")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"x"


def test_an_unusable_path_is_reported_before_writing(tmp_path):
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


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_no_output_appears_if_the_disk_is_full_for_another(small_disk, tmp_path, name):
    (small_disk / "other").write_bytes(b"x" * 190_000)
    first, last = tmp_path / "first", tmp_path / "last.gz"
    first.write_bytes(b"as it was")
    with pytest.raises(InputError) as caught, open_outputs([first, small_disk / name, last]) as files:
        for file in files:
            file.write(os.urandom(20_000))  # stays in the buffer until the end
    assert str(caught.value) == f"{small_disk}/{name}: {FULL}"
    assert os.listdir(small_disk) == ["other"] and first.read_bytes() == b"as it was" and not last.exists()


def test_the_first_output_appears_last(tmp_path, monkeypatch):
    """So if it is there, so are the others, even after a kill between two of them."""
    appeared = []
    monkeypatch.setattr(os, "replace", lambda temporary, final: appeared.append(os.path.basename(final)))
    with open_outputs([tmp_path / "scored", tmp_path / "alignments"]):
        assert not appeared
    assert appeared == ["alignments", "scored"]


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
