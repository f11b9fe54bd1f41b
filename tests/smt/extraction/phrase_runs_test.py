"""Sorted runs on disk, their ranges, and the counts of target phrases."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.smt.extraction import phrase_runs
from keras_encdec.smt.extraction.phrase_runs import (
    count_partition,
    merged,
    plan_ranges,
    read_target_counts,
    write_runs,
    write_targets,
)

# Words that sort below, within and above the separator, one the beginning of another.
PHRASES = st.lists(st.sampled_from([b"a", b"a!", b"ab", b"~", b"\xc3\xa9", b"\x01"]), min_size=1, max_size=3)
KEYS = st.builds(lambda s, t: b" ".join(s) + b" ||| " + b" ".join(t) + b" ||| 0-0", PHRASES, PHRASES)


@given(st.lists(st.lists(KEYS, max_size=40), max_size=4), st.integers(1, 20), st.integers(1, 400), st.integers(1, 99))
@settings(max_examples=60)
def test_ranges_have_each_key_once_in_order_and_whole_sources(tmp_path_factory, batches, in_memory, size, block):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_BLOCK", block), ("PAIRS_IN_MEMORY", in_memory), ("RANGE_BYTES", size)):
            patch.setattr(phrase_runs, name, value)
        runs = [run for i, keys in enumerate(batches) for run in write_runs(keys, str(folder / str(i)))]
        ranges = plan_ranges(runs)
    result = [list(merged(part)) for part in ranges]
    assert [pair for part in result for pair in part] == sorted(
        Counter(key for keys in batches for key in keys).items()
    )
    sources = [{key.split(b" ||| ")[0] for key, _ in part} for part in result]
    assert sum(map(len, sources)) == len(set().union(*sources))
    assert sum(run.lines for run in runs) >= sum(map(len, result))
    if size == 1 and block == 1:
        assert all(len(names) <= 1 for names in sources)


def test_a_range_has_about_the_intended_size(tmp_path, monkeypatch):
    monkeypatch.setattr(phrase_runs, "PAIRS_IN_MEMORY", 2000)
    monkeypatch.setattr(phrase_runs, "RANGE_BYTES", 100_000)
    runs = write_runs((b"w%d ||| x ||| 0-0" % (i % 5000) for i in range(20_000)), str(tmp_path / "run"))
    assert len(runs) == 10
    ranges = plan_ranges(runs)
    total = sum(run.offsets[-1] for run in runs)
    assert 2 <= len(ranges) <= total // 100_000 + 1
    assert sum(len(list(merged(part))) for part in ranges) == 5000


PARTS = st.lists(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"a b", b"c"]), st.integers(1, 5))), min_size=1)


@given(PARTS.filter(any), st.integers(1, 4))
@settings(max_examples=40)
def test_each_pair_gets_the_count_of_its_target(tmp_path_factory, parts, partitions):
    folder = tmp_path_factory.mktemp("targets")
    written = [
        write_targets(
            [target for target, _ in part],
            np.array([count for _, count in part], np.int64),
            partitions,
            str(folder / f"part{i}"),
        )
        for i, part in enumerate(parts)
    ]
    rows = np.array([result for result, _ in written])
    paths = [str(folder / f"partition{p}") for p in range(partitions)]
    for p, path in enumerate(paths):
        count_partition([str(folder / f"part{i}") for i in range(len(parts))], rows, p, path)
    totals, distinct = Counter(), Counter(target for part in parts for target, _ in part)
    for part in parts:
        for target, count in part:
            totals[target] += count
    for i, part in enumerate(parts):
        counts, numbers = read_target_counts(paths, rows, i, written[i][1])
        assert counts.tolist() == [totals[target] for target, _ in part]
        assert numbers.tolist() == [distinct[target] for target, _ in part]
