"""Tests of reading lines."""

import bz2
import contextlib
import gzip
import lzma
import os
import re
import subprocess
import tempfile
import threading
import time
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered_lines import numbered_lines

from keras_encdec.errors import InputError
from keras_encdec.runtime.input_lines import InputLines

# The first bytes of files that gzip, xz, zstd, bzip2 and zip compressed.
COMPRESSED = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"BZh", b"PK\x03\x04"


def naive_lines(data):
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def read(path):
    with InputLines(path) as lines:
        return list(lines)


@settings(max_examples=80)
@given(
    data=st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"\x00\xff", b"\x85", b"bc" * 70000])).map(b"".join)
    | st.binary(),
    compressed=st.booleans(),
)
def test_lines_equal_a_split_at_line_feeds(tmp_path_factory, data, compressed):
    if not data or data.startswith(COMPRESSED[:1] if compressed else COMPRESSED):
        return
    if b"\n" not in data and re.search(rb"\r[^\r]", data):
        return
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(gzip.compress(data) if compressed else data)
    with InputLines(path) as lines:
        numbered = [(lines.line_number, line) for line in lines]
    expected = naive_lines(data)
    assert numbered == list(enumerate(expected, start=1))
    assert lines.line_number == len(expected)
    assert lines.ended_with_newline == data.endswith(b"\n")
    assert lines.size_done == lines.size == path.stat().st_size


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
        assert (lines.size, lines.size_done) == (0, 8)


def test_a_pipe_may_give_the_first_byte_of_a_gzip_file_alone():
    data, (reading, writing) = gzip.compress(b"one\ntwo\n"), os.pipe()
    os.write(writing, data[:1])

    def write_the_rest():
        time.sleep(0.2)  # so that the first byte is read before
        os.write(writing, data[1:])
        os.close(writing)

    thread = threading.Thread(target=write_the_rest)
    thread.start()
    assert read(f"/dev/fd/{reading}") == [b"one", b"two"]
    thread.join()
    os.close(reading)


@contextlib.contextmanager
def standard_input(data):
    """Replaces standard input with the data in the `with` block."""
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
    with (
        standard_input(b""),
        pytest.raises(InputError, match="standard input: found an empty file"),
    ):
        InputLines("-")


def test_standard_input_can_be_read_only_once():
    """Two readers at once would get alternate blocks of it."""
    with standard_input(b"one two three\n" * 100_000):
        with InputLines("-"), pytest.raises(InputError, match="standard input: found - as the name of two inputs"):
            InputLines("-")
        read("-")
        with pytest.raises(InputError, match="standard input: found an empty file.* read only once"):
            InputLines("-")


def test_progress_moves_with_the_lines(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"0123456789\n" * 100_000)
    with InputLines(path) as lines:
        positions = {lines.size_done for _ in lines}
    assert len(positions) > 5 and max(positions) == lines.size == 1_100_000


def test_memory_does_not_grow_with_the_file(tmp_path):
    (tmp_path / "long.gz").write_bytes(gzip.compress(b"0123456789abcdef\n" * 1_000_000, 1))
    tracemalloc.start()
    with InputLines(tmp_path / "long.gz") as lines:
        count = sum(1 for _ in lines)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1_000_000 and peak < 5e6


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


def test_all_lines_are_read_from_a_file_without_its_trailer(tmp_path):
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
    assert str(caught.value) == (f"{path}: found an empty file, expected at least one line; check how it was made.")


@pytest.mark.parametrize(
    ("compress", "program"),
    [(lzma.compress, "xz"), (bz2.compress, "bzip2"), (lambda data: b"\x28\xb5\x2f\xfd" + data, "zstd")],
)
def test_a_file_of_another_compression_is_reported(tmp_path, compress, program):
    path = tmp_path / "table"
    path.write_bytes(compress(b"a ||| b ||| 0.5\n"))
    with pytest.raises(InputError) as caught:
        InputLines(path)
    assert str(caught.value) == (
        f"{path}: found a file compressed by {program}, expected plain or gzipped text; decompress it first: "
        f"{program} -dc FILE."
    )


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("encoding", ["utf-16le", "utf-16be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_text_in_utf16_is_reported(tmp_path, compress, encoding, mark):
    path = tmp_path / "table"
    path.write_bytes(compress(f"{mark}a ||| b ||| 0.5\n".encode(encoding)))
    with pytest.raises(InputError) as caught:
        InputLines(path)
    name = "utf-16" if mark else encoding
    expected = f"found text in UTF-16, expected UTF-8; convert the file: iconv -f {name} -t utf-8 FILE."
    assert str(caught.value) == f"{path}: {expected}"


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_lines_separated_by_carriage_returns_are_reported(tmp_path, compress):
    path = tmp_path / "table"
    path.write_bytes(compress(b"a ||| b ||| 0.5\rc ||| d ||| 0.5\r"))
    with pytest.raises(InputError) as caught:
        InputLines(path)
    expected = "found lines separated by carriage returns, expected line feeds; convert the file:"
    assert str(caught.value) == f"{path}: {expected} tr '\\r' '\\n' <FILE."
    for text in (b"a\r\n", b"a\r", b"a\r\r", b"a\rb\n"):
        path.write_bytes(compress(text))
        with InputLines(path) as lines:
            assert list(lines) == [text.removesuffix(b"\n")]


def test_a_file_that_was_gzipped_twice_is_reported(tmp_path):
    """With --on_error=keep, it would be copied as lines without scores."""
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(gzip.compress(b"a ||| b ||| 0.5\n")))
    expected = "found a file that was gzipped twice, expected plain or gzipped text; decompress it first: gzip -dc"
    with pytest.raises(InputError, match=f"table.gz: {expected} FILE"):
        InputLines(path)


def test_text_that_begins_like_bzip2_is_text(tmp_path):
    (tmp_path / "text").write_bytes(b"BZh9 is a header\n")
    with InputLines(tmp_path / "text") as lines:
        assert list(lines) == [b"BZh9 is a header"]


def test_a_missing_file_and_a_directory_are_reported(tmp_path):
    with pytest.raises(InputError) as caught:
        InputLines(tmp_path / "missing")
    assert str(caught.value) == (
        f"{tmp_path}/missing: found no such file or directory when trying to read a file; check the path."
    )
    with pytest.raises(InputError, match="found a directory when trying to read a file; name a file"):
        InputLines(tmp_path)


def test_a_file_without_lines_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_encdec.runtime.input_lines._MAX_LINE_LENGTH", 1 << 20)
    (tmp_path / "blob").write_bytes(b"short\n" + bytes(3 << 20))
    with pytest.raises(InputError, match="line 2: found a line of more than 1 MiB, expected lines of text"):
        read(tmp_path / "blob")
