"""Tests of putting the nodes of a tree into batches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.scoring.prefix_tree import assign_batches


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
def test_every_node_has_a_slot_of_its_own_after_its_parents_batch(tree, size):
    parents, heights = tree
    slots, batches = assign_batches(parents, heights, size)
    assert len(set(slots.tolist())) == len(parents) and slots.min() >= 0
    assert slots.max() // size + 1 == batches
    for node, parent in enumerate(parents):
        assert parent < 0 or slots[parent] // size < slots[node] // size


@given(trees(), st.integers(1, 9))
def test_no_more_batches_than_any_schedule_of_this_kind_needs(tree, size):
    parents, heights = tree
    _, batches = assign_batches(parents, heights, size)
    longest = heights.max() + 1
    assert max(longest, -(-len(parents) // size)) <= batches <= len(parents) // size + longest


def test_long_ways_go_first_so_that_the_last_batches_are_full():
    # Four chains of 8 and 32 leaves: level by level, the chains' ends would be alone.
    parents = np.concatenate([[-1] * 4, np.arange(28), [-1] * 32])
    heights = np.concatenate([np.repeat(np.arange(7, -1, -1), 4), [0] * 32])
    assert assign_batches(parents, heights, 8)[1] == 8
