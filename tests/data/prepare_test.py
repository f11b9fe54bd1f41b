"""Tests of making a prepared set: unique pairs on disk in random order."""

import collections
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.data import PreparedPairs, prepare
from keras_encdec.errors import InputError
from keras_encdec.text import END, UNKNOWN, Vocabulary
from keras_encdec.text.vocabulary import POSITION_WORDS

WORDS = st.sampled_from(["a", "b", "c", "été", "\udce9", "<unk>"])
PHRASES = st.lists(WORDS, max_size=5)


def phrase(text):
    return text.split()


def pairs_of(*texts):
    return [tuple(phrase(side) for side in text.split("|")) for text in texts]


def ids(pairs):
    """All pairs of a prepared set, as tuples of ids, without padding."""
    arrays = pairs.padded(np.arange(len(pairs)))
    rows = zip(arrays["source"].tolist(), arrays["target"].tolist(), strict=True)
    return [tuple(tuple(row[: row.index(END) + 1]) for row in pair) for pair in rows]


def words(pairs, *vocabularies):
    return [tuple(tuple(v.decode(side)) for v, side in zip(vocabularies, pair, strict=True)) for pair in ids(pairs)]


@settings(max_examples=60)
@given(st.lists(st.tuples(PHRASES, PHRASES)), st.integers(1, 5), st.integers(0, 2**31 - 1))
def test_the_prepared_pairs_are_the_unique_pairs_of_the_input(tmp_path_factory, pairs, max_length, seed):
    folder = tmp_path_factory.getbasetemp() / "prepared"
    full = [(source, target) for source, target in pairs if source and target]
    kept = {(tuple(s), tuple(t)) for s, t in full if len(s) <= max_length and len(t) <= max_length}
    if not kept:
        with pytest.raises(InputError, match=f"found {len(pairs)} pairs?, .* expected at least one"):
            prepare(pairs, folder, max_length=max_length, seed=seed)
        assert not folder.exists()
        return
    if any({word for pair in kept for word in pair[side]} == {"<unk>"} for side in (0, 1)):
        with pytest.raises(InputError, match="found only <unk> on the (source|target) side, expected words"):
            prepare(pairs, folder, max_length=max_length, seed=seed)
        assert not folder.exists()
        return
    prepared, source, target = prepare(iter(pairs), folder, max_length=max_length, seed=seed)
    assert collections.Counter(words(prepared, source, target)) == collections.Counter(kept)
    assert "<unk>" not in {*source.words, *target.words}
    summary = prepared.summary
    assert summary["read"] == len(pairs) and summary["empty"] == len(pairs) - len(full)
    assert summary["unique"] == len(prepared) == len(kept)
    assert summary["source_tokens"] == sum(len(s) + 1 for s, _ in kept)
    assert summary["target_tokens"] == sum(len(t) + 1 for _, t in kept)


def test_repeated_pairs_are_kept_once_and_dropped_pairs_are_counted(tmp_path):
    pairs = pairs_of("a b|c", "a b|c", "a|c", "|c", "a|", "|", "a b c d|c", "a|c c c c", "a b|c")
    prepared, source, target = prepare(pairs, tmp_path / "p", max_length=3)
    assert sorted(words(prepared, source, target)) == [(("a",), ("c",)), (("a", "b"), ("c",))]
    assert {name: prepared.summary[name] for name in ("read", "unique", "too_long", "empty")} == {
        "read": 9,
        "unique": 2,
        "too_long": 2,
        "empty": 3,
    }
    assert sorted(file.name for file in (tmp_path / "p").iterdir()) == [
        "ids.i32",
        "lengths.u16",
        "prepared.json",
        "starts.i64",
    ]


def test_the_vocabulary_has_the_most_frequent_words_of_each_side(tmp_path):
    # Every occurrence in the pairs that are kept counts; those in pairs that are too long do not.
    pairs = pairs_of("a|x", "a|x", "b|x", "c b|y z", "c c c c c c|x")
    prepared, source, target = prepare(pairs, tmp_path / "p", shortlist=(2, 1), max_length=5)
    assert source.words == ["a", "b"] and target.words == ["x"]
    assert prepared.summary["source_unknown"] == 1 and prepared.summary["target_unknown"] == 2
    unknown = ((UNKNOWN, 4, END), (UNKNOWN, UNKNOWN, END))
    assert sorted(ids(prepared)) == [unknown, ((3, END), (3, END)), ((4, END), (3, END))]


def test_given_vocabularies_are_used(tmp_path):
    given_source = Vocabulary(["z", "a"])
    prepared, source, target = prepare(pairs_of("a b|x"), tmp_path / "p", vocabularies=(given_source, None))
    assert source is given_source and target.words == ["x"]
    assert ids(prepared) == [((4, UNKNOWN, END), (3, END))]


MANY = [([f"s{i}"], [f"t{i}"]) for i in range(2000)]


def order(folder, seed, pairs=MANY):
    prepared, source, target = prepare(pairs, folder, seed=seed)
    return [int(pair[0][0][1:]) for pair in words(prepared, source, target)]


def test_the_order_is_random_and_depends_on_the_seed(tmp_path):
    first, again, other = (order(tmp_path / "p", seed) for seed in (1, 1, 2))
    assert first == again != other
    for drawn in (first, other):
        assert sorted(drawn) == list(range(2000)) != drawn
        assert abs(np.corrcoef(drawn, np.arange(2000))[0, 1]) < 0.1
        # Neighbours of the input are no longer neighbours.
        assert np.mean(np.abs(np.diff(drawn)) < 20) < 0.05
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.1


def test_only_a_prepared_set_is_replaced(tmp_path):
    prepare(MANY, tmp_path / "p")
    (tmp_path / "p" / ".prepared.json.0123abcd.tmp").write_text("of a process that was killed")
    assert len(prepare(MANY[:7], tmp_path / "p")[0]) == 7
    assert sorted(os.listdir(tmp_path / "p")) == ["ids.i32", "lengths.u16", "prepared.json", "starts.i64"]
    (tmp_path / "p" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="p: found 'thesis.tex' in it, expected a prepared set, an empty directory"):
        prepare(MANY, tmp_path / "p")
    assert (tmp_path / "p" / "thesis.tex").exists() and len(PreparedPairs(tmp_path / "p")) == 7


def test_nothing_is_left_if_the_input_fails(tmp_path):
    def broken():
        yield from MANY
        raise InputError("found the input broken")

    with pytest.raises(InputError, match="found the input broken"):
        prepare(broken(), tmp_path / "p")
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("name", ["starts.i64", "lengths.u16", "ids.i32"])
@pytest.mark.parametrize("size", [None, 0, 8, -8])
def test_an_incomplete_set_is_reported(tmp_path, name, size):
    prepare(MANY, tmp_path / "p")
    file = tmp_path / "p" / name
    content = file.read_bytes()
    file.unlink()
    if size is not None:
        file.write_bytes(content[:size])
    with pytest.raises(InputError, match="p: found no complete prepared set; remove the folder and prepare it again"):
        PreparedPairs(tmp_path / "p")


@pytest.fixture
def small_disk(disk):
    return disk("2200k")


# Full while the parts are written, and while what is made of them is, which is larger if pairs are short.
@pytest.mark.parametrize(("number", "length"), [(50_000, 20), (100_000, 1)])
def test_a_full_disk_is_reported_and_left_clean(small_disk, number, length):
    with pytest.raises(InputError) as caught:
        prepare((([f"s{i}"], ["t"] * length) for i in range(number)), small_disk / "p")
    assert str(caught.value) == (
        f"{small_disk}/p: found the disk full when trying to write the prepared pairs; "
        "free space or name a path on another disk, and run again."
    )
    assert os.listdir(small_disk) == []


PEAK = """
import resource, sys
from keras_encdec.data import prepare
def pairs(number):
    for i in range(number):
        yield [f"s{i % 211}", f"s{i % 223}", f"s{i % 227}"], [f"t{i % 229}", f"t{i % 233}"]
for number in (40_000, 320_000):
    assert len(prepare(pairs(number), sys.argv[1])[0]) == number
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
def test_memory_does_not_grow_with_the_number_of_pairs(tmp_path):
    command = [sys.executable, "-c", PEAK, str(tmp_path / "p")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    few, many = map(int, output.split())
    # Two empty lists a pair, kept for each of the 280,000 more, would be 30 MB.
    assert many - few < 10_000


def aligned(*texts):
    """Pairs with links: `source|target|links`."""
    split = [map(phrase, text.split("|")) for text in texts]
    return [(source, target, [tuple(map(int, link.split("-"))) for link in links]) for source, target, links in split]


def test_unknown_target_words_become_position_words(tmp_path):
    # Two words of each side are known, a and b, x and y; of equal pairs the first alignment counts.
    pairs = aligned("a b b b|x y x y x y|", "c a|x z|0-1", "c a|x z|1-1", "a c|z y z|1-0", "z|z|0-0", "|x|")
    pairs += aligned("a b|x y|0-0")
    prepared, source, target = prepare(iter(pairs), tmp_path / "p", shortlist=(2, 18), position_words=True)
    assert source.words == ["a", "b"] and target.words == ["x", "y", *POSITION_WORDS]
    assert sorted(words(prepared, source, target)) == [
        (("<unk>",), ("unkpos_0",)),
        (("<unk>", "a"), ("x", "unkpos_1")),
        (("a", "<unk>"), ("unkpos_-1", "y", "unkpos_null")),
        (("a", "b"), ("x", "y")),
        (("a", "b", "b", "b"), ("x", "y", "x", "y", "x", "y")),
    ]
    # They count as unknown nevertheless.
    summary = prepared.summary
    assert summary["unique"] == 5 and summary["target_unknown"] == 4 and summary["source_unknown"] == 3


def test_the_spelling_of_the_unknown_word_in_the_text_is_the_unknown_word(tmp_path):
    pairs = pairs_of("a <unk>|x <unk>", "<unk>|y")
    prepared, source, target = prepare(pairs, tmp_path / "p")
    assert sorted(ids(prepared)) == [((1, END), (4, END)), ((3, 1, END), (3, 1, END))]
    assert (prepared.summary["source_unknown"], prepared.summary["target_unknown"]) == (2, 1)
    # A given vocabulary, such as that of a model which knows it as a word, decides.
    given = Vocabulary(["<unk>", "x"])
    prepared, _, _ = prepare(pairs, tmp_path / "p", vocabularies=(None, given))
    assert ((3, 1, END), (4, 3, END)) in ids(prepared)
    prepared, _, target = prepare(aligned("a|<unk>|0-0", "a|x|0-0"), tmp_path / "p", position_words=True)
    assert target.words == ["x", *POSITION_WORDS] and (("a",), ("unkpos_0",)) in words(prepared, source, target)


def test_position_words_in_the_text_are_the_same_words(tmp_path):
    pairs = aligned("a b|unkpos_null z|0-1", "a|unkpos_null|")
    prepared, source, target = prepare(pairs, tmp_path / "p", shortlist=17, position_words=True)
    assert target.words == ["z", *POSITION_WORDS]
    assert sorted(words(prepared, source, target)) == [(("a",), ("unkpos_null",)), (("a", "b"), ("unkpos_null", "z"))]
    given = Vocabulary(["w", *reversed(POSITION_WORDS)])
    prepared, source, target = prepare(pairs, tmp_path / "p", vocabularies=(None, given), position_words=True)
    assert target is given
    assert sorted(words(prepared, source, target))[1] == (("a", "b"), ("unkpos_null", "unkpos_1"))


def test_lengths_up_to_the_largest_that_the_files_hold_are_kept(tmp_path):
    longest = ["a"] * 65_534
    prepared, *_ = prepare([(longest, ["b"]), ([*longest, "a"], ["b"])], tmp_path / "long", max_length=65_534)
    assert prepared.lengths.tolist() == [[65_535, 2]] and prepared.summary["too_long"] == 1
    with pytest.raises(ValueError, match="found max_length=65535, expected 65534 or less"):
        prepare([(longest, ["b"])], tmp_path / "longer", max_length=65_535)
    assert not (tmp_path / "longer").exists()


@pytest.mark.parametrize("pair", [("le chat", ["the", "cat"]), (["le", "chat"], "the cat")])
def test_a_text_is_not_a_list_of_words(tmp_path, pair):
    with pytest.raises(ValueError, match=r"found the text '\w+ \w+', expected a list of words"):
        prepare([pair], tmp_path / "prepared")
