"""Tests of the tree of shared prefixes, against sets of tuples."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.scoring.prefix_tree import PrefixTree

sequences = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=1, max_size=40)


def tree_of(rows):
    lengths = np.array([len(row) for row in rows])
    padded = np.zeros((len(rows), lengths.max()), np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return PrefixTree(padded, lengths)


def spelled(tree, node):
    return () if node < 0 else (*spelled(tree, tree.parents[node]), int(tree.ids[node]))


@given(sequences)
def test_each_distinct_prefix_is_one_node(rows):
    tree = tree_of(rows)
    found = [spelled(tree, node) for node in range(len(tree.ids))]
    expected = {tuple(row[: i + 1]) for row in rows for i in range(len(row))}
    assert len(found) == len(expected) and set(found) == expected


@given(sequences)
def test_paths_lead_along_the_sequences_and_stay_at_their_ends(rows):
    tree = tree_of(rows)
    for path, row in zip(tree.paths, rows, strict=True):
        for depth, node in enumerate(path):
            assert spelled(tree, node) == tuple(row[: depth + 1])


@given(sequences)
def test_heights_are_the_steps_to_the_farthest_end(rows):
    tree = tree_of(rows)
    for node, height in enumerate(tree.heights):
        prefix = spelled(tree, node)
        through = [len(row) for row in rows if tuple(row[: len(prefix)]) == prefix]
        assert height == max(through) - len(prefix)
