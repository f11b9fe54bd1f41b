"""Tests of cutting files into shards."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_or_gzipped import write

from keras_encdec.errors import InputError
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.shards import cut, windows


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
