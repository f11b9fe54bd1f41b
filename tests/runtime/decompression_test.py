"""Decompressing several members at a time gives the same data as decompressing one after another."""

import gzip
import io
import struct
import threading
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.runtime import decompression
from keras_encdec.runtime.decompression import BrokenGzip, decompressed, decompressed_in_parallel
from keras_encdec.runtime.input_lines import InputLines


def bgzf_block(data):
    """A member of BGZF, which says its own size in the header (SAM specification, section 4.1)."""
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = compressor.compress(data) + compressor.flush()
    header = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + struct.pack("<H", len(body) + 25)
    return header + body + struct.pack("<II", zlib.crc32(data), len(data))


def bgzf(data, size=0xFF00):
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(map(bgzf_block, [*blocks, b""]))  # it ends with an empty block


def outcome(function, content):
    """The data, and the error of a broken file."""
    found, broken = [], None
    try:
        found.extend(function(io.BufferedReader(io.BytesIO(content)), 1 << 10))
    except BrokenGzip as error:
        broken = error.found
    assert all(found), "no block is empty"
    return b"".join(found), broken


# Text that compresses little, so that members reach over the ends of slabs, and text that looks like a header.
TEXT = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda text, times: text * times, st.binary(min_size=1, max_size=20), st.integers(1, 300)),
    st.just(decompression._HEADER * 50),
)
# Members, the zeros and other bytes that may stand between them, and members stored as they are.
PART = st.one_of(
    TEXT.map(gzip.compress),
    TEXT.map(bgzf_block),
    TEXT.map(lambda text: gzip.compress(text, compresslevel=0)),
    st.integers(1, 200).map(bytes),
)


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch):
    monkeypatch.setattr(decompression, "_SLAB", 256)
    monkeypatch.setattr(decompression, "_PIECE", 100)
    monkeypatch.setattr(decompression, "_SLAB_OUTPUT", 2000)


@settings(max_examples=150)
@given(
    parts=st.lists(PART, max_size=12),
    end=st.sampled_from([b"", b"garbage", decompression._HEADER, b"\x1f"]),
    cut=st.integers(0, 40),
    flip=st.none() | st.integers(0, 5000),
)
def test_any_file_gives_the_same_data_and_the_same_error(parts, end, cut, flip):
    content = bytearray(gzip.compress(b"begin") + b"".join(parts) + end)
    if flip is not None and flip < len(content):
        content[flip] ^= 1
    content = bytes(content[: len(content) - cut])
    (data, broken), (expected, expected_broken) = (
        outcome(f, content) for f in (decompressed_in_parallel, decompressed)
    )
    assert broken == expected_broken
    if broken and "corrupt" in broken:  # how much of the member with the fault is found depends on the pieces
        assert data.startswith(expected) or expected.startswith(data)
    else:
        assert data == expected


def test_threads_decompress_the_blocks_of_bgzf(monkeypatch):
    data = b"".join(b"%d little words\n" % number for number in range(20_000))
    member, here = decompression._member, []

    def noted(*arguments):
        here.append(threading.current_thread() is threading.main_thread())
        return member(*arguments)

    monkeypatch.setattr(decompression, "_member", noted)
    assert outcome(decompressed_in_parallel, bgzf(data, 100)) == (data, None)
    assert here.count(False) > 0.5 * len(here), "most members were decompressed elsewhere"


def test_a_file_of_one_member_starts_no_thread(monkeypatch):
    monkeypatch.setattr(decompression, "threads", None)
    data = b"".join(b"%d little words\n" % number for number in range(2000))
    assert outcome(decompressed_in_parallel, gzip.compress(data)) == (data, None)


def test_a_slab_leaves_out_members_that_expand_enormously():
    slab = decompression._decompress_slab(gzip.compress(b"a\n" * 50) + gzip.compress(bytes(10**6))[:200])
    assert b"".join(slab.members) == b"a\n" * 50


def test_lines_of_bgzf_are_taken_in_order_and_numbered(tmp_path):
    data = b"".join(b"line %d\n" % number for number in range(5000))
    content = bgzf(data, 700)
    (tmp_path / "lines.gz").write_bytes(content)
    before = set(threading.enumerate())
    with InputLines(tmp_path / "lines.gz", parallel=True) as lines:
        taken = [lines.take(700) for _ in range(9)]
        assert (b"".join(taken), lines.line_number, lines.ended_with_newline) == (data, 5000, True)
        assert lines.size_done == lines.size
    with InputLines(tmp_path / "lines.gz", parallel=True) as lines:
        assert lines.take(3) == b"line 0\nline 1\nline 2\n"
    assert set(threading.enumerate()) <= before, "its threads end with it"
