"""Counts of target phrases over all parts of a table."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.smt.extraction.phrase_runs import count_partition, read_target_counts, write_targets

PARTS = st.lists(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"a b", b"c"]), st.integers(1, 5))), min_size=1)


@given(PARTS.filter(any), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_each_pair_is_told_how_often_its_target_comes(tmp_path_factory, parts, partitions):
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
    rows = np.array([found for found, _ in written])
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
