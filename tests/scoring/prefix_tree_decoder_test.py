"""The tree of shared prefixes, compared with sets of tuples, and how pairs and nodes are cut into groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.scoring.prefix_tree_decoder import (
    PrefixTree,
    assign_batches,
    cut_into_groups,
    cuts_within,
    largest_batch,
)
from keras_encdec.scoring.source_encoder import call_arguments

SLOTS, SOURCES = 1 << 15, 1 << 12
sequences = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=1, max_size=40)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_source_whose_pairs_are_in_two_groups_counts_in_both(count):
    # Half of the sources have a target more: the first cut is within one, the second where SOURCES are full.
    source_of_pair = np.repeat(np.arange(2 * SOURCES), np.repeat([count + 1, count], SOURCES))
    sources = np.stack([np.arange(2 * SOURCES) % 90 + 3, np.arange(2 * SOURCES) // 90 + 3, np.full(2 * SOURCES, 2)], 1)
    targets = np.tile([5, 2], (len(source_of_pair), 1))
    targets[:, 0] += np.arange(len(source_of_pair)) % (count + 1)
    lengths = np.full(2 * SOURCES, 3), np.full(len(source_of_pair), 2)
    pairs = source_of_pair, targets, lengths[1]
    found = list(cut_into_groups(sources, lengths[0], *pairs, lambda longest: (SLOTS, SOURCES)))
    assert sorted(np.concatenate([group.pairs for group in found])) == list(range(len(source_of_pair)))
    assert all(len(np.unique(source_of_pair[group.pairs])) <= SOURCES for group in found)


def test_a_batch_holds_at_least_two_nodes_even_for_long_sequences():
    # With room for one, XLA copies whole tables at each step: 5,500 tokens took 34 s, and 4,000 took 1 s.
    lengths = np.array([1, 16, 17, 4096, 4097, 100_000])
    np.testing.assert_array_equal(largest_batch(lengths), [1024, 1024, 256, 4, 2, 2])


costs = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 7), st.integers(1, 8)), min_size=1, max_size=60)


@given(costs)
def test_groups_are_consecutive_and_within_the_limits(costs):
    limits = np.array([3, 20, 24])
    cuts = cuts_within(np.cumsum(costs, axis=0).T, limits)
    assert [start for start, _ in cuts] == [0, *(stop for _, stop in cuts[:-1])] and cuts[-1][1] == len(costs)
    for start, stop in cuts:
        assert start < stop
        assert (np.sum(costs[start:stop], axis=0) <= limits).all()


@pytest.mark.parametrize("length", [16, 17, 300, 20_000, 40_000])
def test_a_sequence_of_any_length_fits_into_the_slots(length):
    long, short = (np.full((1, length), 5), np.array([length])), (np.array([[6, 2]]), np.array([2]))
    (group,) = cut_into_groups(*long, np.array([0]), *short, lambda longest: (SLOTS, SOURCES))
    ids, parents, batches, lasts, groups_of_sources = call_arguments(
        group.sources, group.source_lengths, SLOTS, SOURCES
    )
    assert steps_to_root(parents, lasts[0, 0]) == length <= ids.size and batches == length and groups_of_sources == 1
    (group,) = cut_into_groups(*short, np.array([0]), *long, lambda longest: (SLOTS, SOURCES))
    previous, parents, _, batches = group.inputs
    assert steps_to_root(parents, group.paths[0, -1]) == length <= previous.size and batches == length


def steps_to_root(parents, slot):
    steps = 0
    while slot >= 0:
        slot, steps = parents.ravel()[slot], steps + 1
    return steps


def test_groups_have_similar_sizes():
    cuts = cuts_within(np.arange(1, 2101)[None], np.array([1000]))
    assert [stop - start for start, stop in cuts] == [700, 700, 700]


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
    # Four chains of 8 and 32 leaves: assigned level by level, the ends of the chains would fill no batch.
    parents = np.concatenate([[-1] * 4, np.arange(28), [-1] * 32])
    heights = np.concatenate([np.repeat(np.arange(7, -1, -1), 4), [0] * 32])
    assert assign_batches(parents, heights, 8)[1] == 8
