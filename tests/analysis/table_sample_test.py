import collections

import pytest
from toy_report import SOURCES

from keras_encdec.analysis import read_preferences, read_table_sample
from keras_encdec.analysis.table_sample import Reservoir, plain_text
from keras_encdec.errors import InputError


def sources(phrases):
    return [plain_text(lines[0].source) for lines in phrases]


def test_a_small_table_is_read_completely(table):
    sample = read_table_sample(table)
    assert sample.num_pairs == len(sample.pairs) == 45
    assert sample.pairs[0][:2] == ("le chat &lt;b&gt; R&amp;D", "the cat") and sample.pairs[0].occurrences == 90
    assert sample.pairs[1].probability == pytest.approx(3 / 15)
    assert sample.num_phrases == 6 and sample.phrases == [source for source, _ in SOURCES[:6]]
    assert [len(lines) for lines in sample.candidates] == [5] * 6


def test_phrases_of_fewer_targets_are_added_if_few_have_enough(tmp_path):
    pairs = [(f"a b c p{i}", f"t{j}") for i in range(9) for j in range(4 if i < 2 else 3)]
    lines = [f"{source} ||| {target} ||| 0.5 0.5 0.5 0.5 ||| ||| 1 1 1\n" for source, target in pairs]
    (tmp_path / "table").write_text("".join(lines))
    sample = read_table_sample(tmp_path / "table")
    assert sorted(map(len, sample.candidates)) == [3] * 7 + [4] * 2


def test_the_seed_determines_the_sample_of_a_large_table(table):
    first, again, other = (read_table_sample(table, pairs=10, phrases=2, seed=seed) for seed in (1, 1, 2))
    assert len(first.pairs) == 10 and len(first.phrases) == 2 and (first.num_pairs, first.num_phrases) == (45, 6)
    assert first == again and first.pairs != other.pairs


def test_frequent_and_rare_phrases_are_chosen(table):
    chosen = read_table_sample(table).choose_phrases(2, seed=0)
    assert list(chosen) == ["frequent", "rare"]
    assert set(sources(chosen["frequent"])) == {"le chat <b> R&D", "la maison <b> été"}
    assert set(sources(chosen["rare"])) == {"la maison le chat", "le chat [X] été"}


def test_without_counts_there_is_a_single_kind_and_without_long_phrases_none(tmp_path):
    (tmp_path / "bare").write_text("".join(f"a b c {i} ||| {j} ||| 1 1 0.5 1\n" for i in range(4) for j in range(4)))
    chosen = read_table_sample(tmp_path / "bare").choose_phrases(3, seed=0)
    assert list(chosen) == ["long"] and len(chosen["long"]) == 3
    (tmp_path / "short").write_text("a ||| b ||| 1 1 1 1\n")
    assert read_table_sample(tmp_path / "short").choose_phrases(3, seed=0) == {}


def test_given_phrases_are_shown(table):
    chosen = read_table_sample(table, given=["la maison", "le chat <b> R&D"]).choose_phrases(1, seed=0)
    assert list(chosen) == ["given"] and sources(chosen["given"]) == ["la maison", "le chat <b> R&D"]
    with pytest.raises(InputError, match="found no line of the source phrase 'chien', expected it in the table"):
        read_table_sample(table, given=["chien"])
    with pytest.raises(ValueError, match="found the text 'la maison', expected a list of texts"):
        read_table_sample(table, given="la maison")


def test_a_table_without_the_score_is_an_input_error(tmp_path):
    (tmp_path / "table").write_text("a ||| b ||| 1 1\n")
    with pytest.raises(InputError, match="table, line 1: found 2 scores, expected three or more"):
        read_table_sample(tmp_path / "table")


TABLE = """\
l &apos; x ||| a ||| 0.1 0.1 0.2 0.1 0.9 ||| 0-0 ||| 1 7 1
l &apos; x ||| b ||| 0.1 0.1 0.5 0.1 0.1 ||| 0-0 ||| 1 7 1
l &apos; x ||| c ||| 0.1 0.1 0.3 0.1 1e-05 ||| 0-0 ||| 1 7 1
y ||| d ||| 0.1 0.1 1 0.1 0.5
"""


def test_preferences_rank_the_options_of_each_source(tmp_path):
    (tmp_path / "table").write_text(TABLE)
    first, second = read_preferences(tmp_path / "table", model_score=4)
    assert (first.source, first.occurrences) == ("l ' x", 7)
    assert (first.by_table(), first.by_model(2)) == (["b", "c", "a"], ["a", "b"])
    assert (second.source, second.by_model(), second.occurrences) == ("y", ["d"], 0)


def test_a_table_that_cannot_be_read_is_an_input_error(tmp_path):
    (tmp_path / "table").write_text("y ||| d\n")
    with pytest.raises(InputError, match="line 1"):
        list(read_preferences(tmp_path / "table", model_score=4))
    (tmp_path / "table").write_text(TABLE)
    with pytest.raises(InputError, match="line 1: found 5 scores, expected .* and the model's at the index 5; give a"):
        list(read_preferences(tmp_path / "table", model_score=5))


def sampled(seed, size=3, number=9):
    reservoir = Reservoir(size, seed)
    for item in range(number):
        reservoir.offer(item)
    return reservoir.items()


def test_every_item_is_equally_likely_and_the_order_is_kept():
    samples = [sampled(seed) for seed in range(3000)]
    assert all(sample == sorted(set(sample)) and len(sample) == 3 for sample in samples)
    counts = collections.Counter(item for sample in samples for item in sample)
    assert len(counts) == 9 and all(880 < count < 1120 for count in counts.values())
    assert sampled(7) == sampled(7) and sampled(1, size=20) == list(range(9))
