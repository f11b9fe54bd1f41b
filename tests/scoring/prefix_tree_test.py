"""The tree of shared prefixes, compared with sets of tuples, and how its nodes are put into batches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.scoring.prefix_tree import PrefixTree, assign_batches, largest_batch

sequences = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=1, max_size=40)


def test_a_batch_holds_at_least_two_nodes_even_for_long_sequences():
    # With room for one, XLA copies whole tables at each step: 5,500 tokens took 34 s, and 4,000 took 1 s.
    lengths = np.array([1, 16, 17, 4096, 4097, 100_000])
    np.testing.assert_array_equal(largest_batch(lengths), [1024, 1024, 256, 4, 2, 2])


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
def test_paths_follow_the_sequences_and_repeat_the_last_node(rows):
    tree = tree_of(rows)
    for path, row in zip(tree.paths, rows, strict=True):
        for depth, node in enumerate(path):
            assert spelled(tree, node) == tuple(row[: depth + 1])


@given(sequences)
def test_the_height_of_a_node_is_the_number_of_steps_to_its_farthest_end(rows):
    tree = tree_of(rows)
    for node, height in enumerate(tree.heights):
        prefix = spelled(tree, node)
        through = [len(row) for row in rows if tuple(row[: len(prefix)]) == prefix]
        assert height == max(through) - len(prefix)


@st.composite
def trees(draw):
    """Parents, -1 at a root, and heights."""
    count = draw(st.integers(1, 80))
    parents = np.array([draw(st.integers(-1, node - 1)) for node in range(count)])
    heights = np.zeros(count, int)
    for node in range(count - 1, 0, -1):
        if parents[node] >= 0:
            heights[parents[node]] = max(heights[parents[node]], heights[node] + 1)
    return parents, heights


@given(trees(), st.integers(1, 9))
def test_every_node_has_its_own_slot_in_a_later_batch_than_its_parent(tree, size):
    parents, heights = tree
    slots, batches = assign_batches(parents, heights, size)
    assert len(set(slots.tolist())) == len(parents) and slots.min() >= 0
    assert slots.max() // size + 1 == batches
    for node, parent in enumerate(parents):
        assert parent < 0 or slots[parent] // size < slots[node] // size


@given(trees(), st.integers(1, 9))
def test_the_number_of_batches_is_within_the_bounds_of_any_greedy_schedule(tree, size):
    parents, heights = tree
    _, batches = assign_batches(parents, heights, size)
    longest = heights.max() + 1
    assert max(longest, -(-len(parents) // size)) <= batches <= len(parents) // size + longest


def test_nodes_with_long_paths_to_a_leaf_go_first_so_that_the_last_batches_are_full():
    # Four chains of 8 nodes, and 32 single nodes: level by level, the ends of the chains would not fill a batch.
    parents = np.concatenate([[-1] * 4, np.arange(28), [-1] * 32])
    heights = np.concatenate([np.repeat(np.arange(7, -1, -1), 4), [0] * 32])
    assert assign_batches(parents, heights, 8)[1] == 8
