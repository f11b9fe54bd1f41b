"""How pairs are cut into groups, and the slots of a group."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.scoring.pair_groups import cut_into_groups, cuts_within
from keras_encdec.scoring.source_encoder import call_arguments

SLOTS, SOURCES = 1 << 15, 1 << 12


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_source_whose_pairs_are_in_two_groups_counts_in_both(count):
    # Half of the sources have one target more. The first cut is within a source, the second after SOURCES sources.
    source_of_pair = np.repeat(np.arange(2 * SOURCES), np.repeat([count + 1, count], SOURCES))
    sources = np.stack([np.arange(2 * SOURCES) % 90 + 3, np.arange(2 * SOURCES) // 90 + 3, np.full(2 * SOURCES, 2)], 1)
    targets = np.tile([5, 2], (len(source_of_pair), 1))
    targets[:, 0] += np.arange(len(source_of_pair)) % (count + 1)
    lengths = np.full(2 * SOURCES, 3), np.full(len(source_of_pair), 2)
    pairs = source_of_pair, targets, lengths[1]
    found = list(cut_into_groups(sources, lengths[0], *pairs, lambda longest: (SLOTS, SOURCES)))
    assert sorted(np.concatenate([group.pairs for group in found])) == list(range(len(source_of_pair)))
    assert all(len(np.unique(source_of_pair[group.pairs])) <= SOURCES for group in found)


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


def test_a_long_source_does_not_cut_short_ones_into_more_groups():
    sources = np.zeros((101, 3000), np.int64)
    sources[:100, 0], sources[:100, 1] = np.arange(100) + 3, 2
    sources[100] = 5
    lengths, targets = np.array([2] * 100 + [3000]), np.tile([7, 2], (101, 1))
    pairs = np.arange(101), targets, np.full(101, 2)
    short, long = cut_into_groups(sources, lengths, *pairs, lambda longest: (2048, 256))
    assert sorted(len(group.pairs) for group in (short, long)) == [1, 100]


def test_groups_have_similar_sizes():
    cuts = cuts_within(np.arange(1, 2101)[None], np.array([1000]))
    assert [stop - start for start, stop in cuts] == [700, 700, 700]


def test_pairs_that_need_more_batches_than_there_are_are_cut_in_half():
    # Only the empty prefix is in the first batch. The others then need one batch more than fits into 4800 slots.
    count = 1600
    targets = np.stack([np.arange(count), np.arange(count), np.full(count, 2)], axis=1) + [3, 3, 0]
    source = np.array([[7, 2]]), np.array([2])
    pairs = np.zeros(count, np.int64), targets, np.full(count, 3)
    groups = list(cut_into_groups(*source, *pairs, lambda longest: (4800, SOURCES)))
    assert [len(group.pairs) for group in groups] == [800, 800]
    assert all(group.inputs[0].size <= 4800 for group in groups)
