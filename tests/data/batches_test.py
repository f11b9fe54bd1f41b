"""Tests of the order of the training pairs and of their batches."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.data import Batches, batches, pad, prepare, tf_dataset
from keras_encdec.data.batches import length_batches
from keras_encdec.text import END, FIRST_WORD

PAIRS = 537
MAX_TOKENS = 1 << 15


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Pairs of many lengths; the first source word of each is unique."""
    random = np.random.default_rng(0)
    made = [([f"s{i}", *["w"] * random.integers(0, 9)], ["v"] * random.integers(1, 9)) for i in range(PAIRS)]
    prepared, *_ = prepare(made, tmp_path_factory.mktemp("data") / "p", shortlist=10_000)
    assert len(prepared) == PAIRS
    return prepared


def content(batch):
    return [(name, array.shape, array.dtype, array.tobytes()) for name, array in sorted(batch.items())]


def take(stream, number):
    return list(itertools.islice(stream, number))


def drawn(stream):
    """The pairs of some batches, by the ids of their sources' first words."""
    return [row for batch in stream for row in batch["source"][:, 0].tolist()]


@pytest.mark.parametrize("singly", [1_000_000, 100, 10])
@pytest.mark.parametrize("places", [None, range(30, 330), range(41)])
def test_every_pair_is_drawn_once_in_an_epoch_except_for_a_remainder(pairs, monkeypatch, places, singly):
    monkeypatch.setattr(batches, "SHUFFLED_SINGLY", singly)
    stream = Batches(pairs, 20, places, seed=3)
    places = range(PAIRS) if places is None else places
    assert stream.updates_per_epoch == len(places) // 20
    expected = set(pairs.padded(np.array(places), 12, 12)["source"][:, 0].tolist())
    batches_of = stream.stream()
    left_out = []
    for _ in range(3):
        epoch = drawn(take(batches_of, stream.updates_per_epoch))
        assert len(epoch) == len(set(epoch)) == stream.updates_per_epoch * 20
        assert set(epoch) <= expected
        left_out.append(frozenset(expected - set(epoch)))
    if singly == 1_000_000 and len(places) % 20:
        assert len(set(left_out)) > 1, "another remainder is left out each time"


def test_the_order_depends_on_the_seed_and_changes_each_epoch(pairs):
    first, again, other = (take(Batches(pairs, 50, seed=seed).stream(), 20) for seed in (1, 1, 2))
    assert list(map(content, first)) == list(map(content, again)) != list(map(content, other))
    assert drawn(first[:10]) != drawn(first[10:])
    assert set(drawn(first[:5])) != set(drawn(first[10:15]))


@pytest.mark.parametrize("widths", [None, (4, 8)])
@pytest.mark.parametrize("update", [0, 1, 25, 26, 27, 60])
def test_a_stream_that_starts_later_gives_the_same_batches(pairs, update, widths):
    stream = Batches(pairs, 20, range(5, PAIRS), seed=9, widths=widths)
    assert stream.updates_per_epoch == 26
    whole = take(stream.stream(), update + 30)
    assert list(map(content, take(stream.stream(update), 30))) == list(map(content, whole[update:]))


def test_rows_are_padded_with_zeros_to_the_longest_of_the_batch(pairs):
    for batch in take(Batches(pairs, 20, seed=1).stream(), 26):
        assert {array.dtype for array in batch.values()} == {np.dtype("int32")}
        for array in batch.values():
            ends = (array == END).argmax(axis=1)
            assert array.shape == (20, ends.max() + 1)
            for row, end in zip(array, ends, strict=True):
                assert (row[:end] >= FIRST_WORD).all() and row[end] == END and not row[end + 1 :].any()


def test_a_batch_of_each_shape_comes_first_the_largest_before_the_others(pairs):
    batches = take(Batches(pairs, 20, seed=1, widths=[4, 7]).stream(), 26)
    widths = [(batch["source"].shape[1], batch["target"].shape[1]) for batch in batches]
    number = len(set(widths))
    sizes = list(map(sum, widths[:number]))
    assert 1 < number == len(set(widths[:number])) and sizes == sorted(sizes, reverse=True)
    plain = take(Batches(pairs, 20, seed=1).stream(), 52)
    assert sorted(drawn(batches)) == sorted(drawn(plain[:26])) and drawn(batches) != drawn(plain[:26])
    second = take(Batches(pairs, 20, seed=1, widths=[4, 7]).stream(26), 26)
    assert drawn(second) == drawn(plain[26:]), "the second epoch begins with any batch"


def test_without_widths_the_largest_batch_comes_first(pairs):
    for seed in range(3):
        sizes = [
            sum(array.shape[1] for array in batch.values())
            for batch in take(Batches(pairs, 20, seed=seed).stream(), 26)
        ]
        assert sizes[0] == max(sizes) and sizes[1:] != sorted(sizes[1:], reverse=True)


def test_one_shape_of_batch_keeps_the_order_without_widths(pairs):
    for seed in range(3):
        plain, padded = (take(Batches(pairs, 20, seed=seed, widths=widths).stream(), 26) for widths in (None, [20]))
        assert drawn(padded) == drawn(plain)


def test_widths_are_the_least_that_fit(pairs):
    plain = {tuple(drawn([batch])): batch for batch in take(Batches(pairs, 20, seed=1).stream(), 26)}
    for batch in take(Batches(pairs, 20, seed=1, widths=[4, 7]).stream(), 26):
        exact = plain[tuple(drawn([batch]))]
        for name, array in batch.items():
            width = exact[name].shape[1]
            assert array.shape[1] == (4 if width <= 4 else 7 if width <= 7 else width)
            np.testing.assert_array_equal(array[:, :width], exact[name])
            assert not array[:, width:].any()


def test_pairs_of_similar_length_are_in_one_batch(pairs):
    stream = Batches(pairs, 20, range(200), seed=1)  # ten batches, so all are sorted together
    epoch = take(stream.stream(), stream.updates_per_epoch)
    lengths = [(batch["target"] != 0).sum(axis=1) for batch in epoch]
    ranges = sorted((row.min(), row.max()) for row in lengths)
    assert all(longest <= shortest for (_, longest), (shortest, _) in itertools.pairwise(ranges))
    assert [row.min() for row in lengths] != [shortest for shortest, _ in ranges], "batches come in random order"


def test_fewer_pairs_than_a_batch_make_one_batch(pairs):
    stream = Batches(pairs, 64, range(5))
    assert (stream.batch_size, stream.updates_per_epoch) == (5, 1)
    assert [sorted(drawn([batch])) for batch in take(stream.stream(), 2)] == [sorted(drawn(stream.once()))] * 2


def test_all_pairs_are_evaluated_once_in_batches_by_length(pairs):
    stream = Batches(pairs, 100, range(20, PAIRS))
    evaluated = stream.once()
    assert sorted(drawn(evaluated)) == sorted(pairs.padded(np.arange(20, PAIRS))["source"][:, 0].tolist())
    assert [len(batch["source"]) for batch in evaluated] == [100] * 5 + [17]
    lengths = [(batch["target"] != 0).sum(axis=1) for batch in evaluated]
    assert (np.diff(np.concatenate(lengths)) >= 0).all()


def test_the_tf_data_pipeline_gives_the_batches_of_the_stream(pairs):
    pytest.importorskip("tensorflow")
    stream = Batches(pairs, 20, seed=4, widths=[5, 12])
    dataset = tf_dataset(lambda: stream.stream(7)).take(50)
    for _ in range(2):  # every pass begins anew
        passed = list(map(content, dataset.as_numpy_iterator()))
        assert passed == list(map(content, take(stream.stream(7), 50)))
    evaluated = list(tf_dataset(stream.once).as_numpy_iterator())
    assert list(map(content, evaluated)) == list(map(content, stream.once()))


def test_sequences_are_padded():
    assert pad([[3, 2], [], [4, 5, 2]]).tolist() == [[3, 2, 0], [0, 0, 0], [4, 5, 2]]
    assert pad([[3, 2]], width=4).tolist() == [[3, 2, 0, 0]]
    assert pad([]).shape == (0, 1)
    with pytest.raises(ValueError, match=r"found \[1, 2\], expected a list of lists of ids"):
        pad([1, 2])
    with pytest.raises(ValueError, match="found a sequence of 3 ids, expected at most width=2"):
        pad([[5, 6, 2]], width=2)
    for wrong in ([5.7, 2], [2**31, 2], ["5", 2]):
        with pytest.raises(ValueError, match=f"found {re.escape(str(wrong))}, expected ids, whole numbers below"):
            pad([[6, 2], wrong])


def test_batches_of_a_rare_shape_are_padded_to_a_frequent_one(pairs, monkeypatch):
    exact = Batches(pairs, 1, seed=1, widths=[5, 12])
    shapes = [(batch["source"].shape[1], batch["target"].shape[1]) for batch in take(exact.stream(), PAIRS)]
    rarest, *frequent = sorted(set(shapes), key=shapes.count)
    monkeypatch.setattr(batches, "RARE_SHAPE", (shapes.count(rarest) + 1) / PAIRS)
    folded = take(Batches(pairs, 1, seed=1, widths=[5, 12]).stream(), PAIRS)
    assert {(batch["source"].shape[1], batch["target"].shape[1]) for batch in folded} == set(frequent)
    by_pair = {tuple(drawn([batch])): batch for batch in take(exact.stream(), PAIRS)}
    for batch in folded:
        before = by_pair[tuple(drawn([batch]))]
        for name, array in batch.items():
            width = before[name].shape[1]
            np.testing.assert_array_equal(array[:, :width], before[name])
            assert not array[:, width:].any()


@pytest.mark.parametrize("number", [0, 1, 15, 64, 65, 1000, 2048])
def test_batches_have_nearly_the_same_size_and_similar_lengths(number):
    lengths = np.random.default_rng(number).integers(1, 40, number).tolist()
    batches = list(length_batches(lengths, 64, MAX_TOKENS))
    assert sorted(index for batch in batches for index in batch.indices) == list(range(number))
    assert [lengths[index] for batch in batches for index in batch.indices] == sorted(lengths)
    sizes = [len(batch.indices) for batch in batches]
    assert all(size <= 64 for size in sizes) and len(sizes) == -(-number // 64)
    assert sum(batch.rows for batch in batches) <= 1.125 * number + 1 or max(sizes) < 16
    assert len({batch.rows for batch in batches}) <= 2


@given(st.lists(st.sampled_from([1, 9, 40, 130, 700, 5000, 70_000]), max_size=300), st.sampled_from([1, 64, 768]))
def test_only_a_batch_of_one_sequence_may_have_more_padded_tokens_than_allowed(lengths, max_rows):
    batches = list(length_batches(lengths, max_rows, MAX_TOKENS))
    assert sorted(index for batch in batches for index in batch.indices) == list(range(len(lengths)))
    for indices, rows, width in batches:
        assert len(indices) <= rows <= max_rows and max(lengths[index] for index in indices) <= width
        assert rows * width <= MAX_TOKENS or rows == 1


def test_widths_are_few_and_not_much_too_wide():
    widths = {length: next(length_batches([length], 1, MAX_TOKENS)).width for length in range(1, 5001)}
    assert all(length <= width <= max(length + 8, 1.125 * length + 1) for length, width in widths.items())
    assert len(set(widths.values())) < 65
