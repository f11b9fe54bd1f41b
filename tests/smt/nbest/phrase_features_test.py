"""Scores of a phrase table as features of n-best lists."""

import gzip
import itertools
import math
import os
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import InputLines, parse_features
from keras_encdec.smt import add_phrase_features
from keras_encdec.smt.nbest import hypothesis_phrases
from keras_encdec.smt.nbest.phrase_scores import PhraseScores

SENTENCES = "the big house &apos;s\n\nthe unheard\n"
# ln of the five scores: -1 -2 -0.5 -0.25, and of the fifth -1, -2, -4, ...
TABLE = "".join(
    f"{pair} ||| 0.367879 0.135335 0.606531 {fourth:.6g} {math.exp(-score):.6g} ||| 0-0\n"
    for pair, fourth, score in (
        ("the ||| la", 0.5, 1),
        ("the big ||| la grande", 0.25, 2),
        ("big ||| grande", 0.25, 4),
        ("house ||| maison", 0.5, 8),
        ("house &apos;s ||| de la maison", 0.1, 16),
        ("&apos;s ||| de", 0.1, 32),
        ("elsewhere ||| ailleurs", 0.1, 64),
    )
)
# Lines and the sums of the fifth score.
FIRST = "TranslationModel0= -2 -4 -1 -3.68888 PhrasePenalty0= 2 Distortion0= 0"
SECOND = "LM0= -3 TranslationModel0= -4 -8 -2 -5.07517 PhrasePenalty0= 4 Distortion0= -3"
LINES = {
    f"0 ||| la grande de la maison  ||| {FIRST} ||| -1": -18,
    f"0 ||| la grande de maison  ||| {SECOND} ||| 2 ": -45,
    "0|||la grande de maison|||TranslationModel0= -4 -8 -2 -5.07517|||2|||0=0 1=1 3=2 2=3|||0-0 ": -45,
    "1 |||  ||| TranslationModel0= 0 0 0 0 PhrasePenalty0= 0 Distortion0= 0 ||| 0": 0,
    "2 ||| la unheard  ||| TranslationModel0= -1 -2 -0.5 -0.693147 ||| 0": -1,
}
NBEST = "".join(f"{line}\n" for line in LINES)


def test_lines_with_the_same_pair_are_distinguished_by_their_scores(tmp_path):
    """Without factors, several lines of a table may have the same pair."""
    factors = [("NN", 0.1, 0.001), ("VB", 0.9, 0.5), ("JJ", 0.4, 0.125)]
    table = "".join(f"run|{tag} ||| b ||| {score} {score} {score} {score} {last}\n" for tag, score, last in factors)
    lines = []
    for first, second in itertools.product(factors, repeat=2):
        sums = " ".join([f"{math.log(first[1]) + math.log(second[1]):.6g}"] * 4)
        lines.append(f"0 ||| b b  ||| TranslationModel0= {sums} ||| 0 ||| 0=0 1=1\n")
    lines.append("0 ||| b b  ||| LM0= 1 ||| 0 ||| 0=0 1=1\n")  # nothing distinguishes them: the first line is taken
    for name, text in (("nbest", "".join(lines)), ("source", "run run\n"), ("table", table)):
        (tmp_path / name).write_text(text)
    summary = add_phrase_features(tmp_path / "nbest", tmp_path / "source", tmp_path / "table", tmp_path / "out")
    assert summary.segmented == len(lines) and not summary.notices
    found = [parse_features(line.split(b"|||")[2])["RNN0"][0] for line in (tmp_path / "out").read_bytes().splitlines()]
    expected = [math.log(first[2] * second[2]) for first, second in itertools.product(factors, repeat=2)]
    assert found == pytest.approx([*expected, math.log(1e-6)], rel=1e-4)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nbest").write_text(NBEST)
    (tmp_path / "source").write_text(SENTENCES)
    (tmp_path / "table").write_text(TABLE)
    (tmp_path / "out").mkdir()
    return tmp_path


def added(folder, features=None, output="out/nbest", **options):
    """Adds features to the list of a folder; returns the summary and what was written."""
    summary = add_phrase_features(
        folder / "nbest", folder / "source", folder / "table", folder / output, features, **options
    )
    with InputLines(folder / output) as lines:
        return summary, b"".join(line + b"\n" for line in lines).decode("utf-8", "replace")


def test_sums_over_the_phrases_are_appended_to_the_features(files):
    summary, written = added(files)
    assert len(written.splitlines()) == len(LINES)
    for line, (before, expected) in zip(written.splitlines(), LINES.items(), strict=True):
        (value,) = parse_features(line.split("|||")[2].encode())["RNN0"]
        assert value == pytest.approx(expected, abs=1e-4)
        assert line.replace(f" RNN0= {value:.6f}", "", 1) == before
    assert (summary.lines, summary.segmented, summary.recovered, summary.unsegmented) == (5, 2, 3, 0)
    assert summary.notices == [
        "The list does not contain the phrases of 3 of 5 hypotheses; they were recovered from the scores of the table."
    ]


def test_several_features_of_several_scores_of_gzipped_files(files):
    expected = added(files, {"A": [1, 5], "B": [3]})[1]
    first = parse_features(expected.splitlines()[0].split("|||")[2].encode())
    assert first["A"] == pytest.approx([-2, -18], abs=1e-4) and first["B"] == pytest.approx([-1], abs=1e-4)
    for name in ("nbest", "source", "table"):
        (files / name).write_bytes(gzip.compress((files / name).read_bytes()))
    assert added(files, {"A": [1, 5], "B": [3]}, output="out/nbest.gz")[1] == expected
    assert (files / "out" / "nbest.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_the_last_line_feed_and_other_bytes_are_kept(files):
    lines = "2 ||| l\xe0 x  ||| TM= -1 -2 ||| 0\r\n2 ||| l\xe0  x ||| TM= -1 -2 ||| 0"
    (files / "nbest").write_bytes(lines.encode("latin-1"))
    (files / "source").write_bytes("\n\nth\xe9 x\r\n".encode("latin-1"))
    (files / "table").write_bytes("th\xe9 ||| l\xe0 ||| 0.367879 0.135335 0\n".encode("latin-1"))
    added(files, {"R": [3]}, moses_feature="TM", encoding="latin-1")
    before = (files / "nbest").read_bytes()
    assert (files / "out" / "nbest").read_bytes() == before.replace(b"-2", b"-2 R= -100.000000")
    with pytest.raises(InputError, match="source, line 3: found bytes that are not UTF-8"):
        added(files, {"R": [3]}, moses_feature="TM")


def test_escapes_and_factors_make_no_difference(files):
    (files / "source").write_text(SENTENCES.replace("&apos;s", "'s|POS"))
    assert added(files)[0].recovered == 3


@given(st.integers(0, 10**9), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=25)
def test_the_phrases_of_random_translations_are_recovered(tmp_path_factory, seed, jumps, empty, drops):
    """Tables whose third score makes each pair recognizable, and translations in any order of the phrases."""
    draw, folder = random.Random(seed), tmp_path_factory.mktemp("random")
    sentence = draw.choices("abc", k=draw.randint(1, 7))
    pairs, lines = {}, []
    for _ in range(12):
        start = draw.randrange(len(sentence))
        source = " ".join(sentence[start : start + draw.randint(1, 3)])
        target = " ".join(draw.choices("xyz", k=draw.randint(0 if empty else 1, 3)))
        pairs[source, target] = [float(f"{draw.uniform(0, 1):.6g}") for _ in range(3)]
    table = "".join(f"{source} ||| {target} ||| {' '.join(map(str, p))}\n" for (source, target), p in pairs.items())
    expected = []
    for _ in range(5):
        spans, position = [], 0
        while position < len(sentence):
            fitting = [pair for pair in pairs if f"{' '.join(sentence[position:])} ".startswith(f"{pair[0]} ")]
            pair = draw.choice(fitting) if fitting else None
            if pair is None:  # a word that may have no phrase of its own, and is then copied or dropped
                pair = (sentence[position], "" if drops else sentence[position])
                table_has = any(source == pair[0] for source, _ in pairs)
                assert not table_has
            spans.append((position, pair))
            position += len(pair[0].split())
        if jumps:
            draw.shuffle(spans)
        scores = [sum(math.log(pairs[pair][i]) for _, pair in spans if pair in pairs) for i in range(3)]
        distortion, previous = 0, 0
        for start, (source, _) in spans:
            distortion, previous = distortion - abs(start - previous), start + len(source.split())
        words = " ".join(target for _, (_, target) in spans if target)
        features = f"TranslationModel0= {scores[0]:.6g} {scores[1]:.6g} PhrasePenalty0= {len(spans)}"
        lines.append(f"0 ||| {words}  ||| {features} Distortion0= {distortion} ||| 0\n")
        expected.append(scores[2])
    for name, text in (("nbest", "".join(lines)), ("source", " ".join(sentence) + "\n"), ("table", table)):
        (folder / name).write_text(text)
    summary, written = added(folder, {"RNN0": [3]}, output="written")
    values = [parse_features(line.split("|||")[2].encode())["RNN0"][0] for line in written.splitlines()]
    assert values == pytest.approx(expected, abs=2e-6)
    assert summary.recovered == 5


def test_the_first_of_several_segmentations_is_used(files):
    (files / "source").write_text("a b\n")
    pairs = {"a b ||| x y": 0.5, "a ||| x": 0.25, "b ||| y": 0.25, "b ||| x": 0.125, "a ||| y": 0.125}
    (files / "table").write_text("".join(f"{pair} ||| 1 {score}\n" for pair, score in pairs.items()))
    for further, expected in {
        "": 0.25 * 0.25,
        " PhrasePenalty0= 1": 0.5,
        " PhrasePenalty0= 2 Distortion0= -3": 0.125 * 0.125,
    }.items():
        (files / "nbest").write_text(f"0 ||| x y  ||| TranslationModel0= 0{further} ||| 0\n")
        written = added(files, {"R": [2]})[1]
        assert f" R= {math.log(expected):.6f} |||" in written


def test_pairs_with_a_negative_score_are_left_out_as_in_moses(files):
    (files / "source").write_text("a\n")
    (files / "nbest").write_text("0 ||| x  ||| TM= -1 ||| 0 ||| 0=0\n0 ||| a  ||| TM= 0 ||| 0\n")
    (files / "table").write_text("a ||| x ||| -0.5\n")
    with pytest.raises(InputError, match='line 1: found the phrases "a" and "x" in the segmentation, expected a pair'):
        added(files, {"R": [1]}, moses_feature="TM")
    assert added(files, {"R": [1]}, moses_feature="TM", on_error="keep")[0].recovered == 1


def test_hypotheses_without_phrases_stop_or_get_the_mean_of_their_sentence(files):
    lines = NBEST.splitlines()
    lines.insert(2, lines[0].replace("-1 -3.6", "-1.5 -3.6"))  # no such sum
    lines.insert(3, "0 ||| malformed ||| LM0= -3 ||| x")
    lines.insert(4, "malformed")
    (files / "nbest").write_text("\n".join(lines))
    (files / "table").write_text("malformed\n" + TABLE)
    with pytest.raises(InputError, match="table, line 1: found 1 field, .* --on_error=keep to leave such lines out"):
        added(files)
    summary, written = added(files, {"A": [5, 1]}, on_error="keep")
    written = written.splitlines()
    values = [parse_features(line.split("|||")[2].encode())["A"] for line in written[:3]]
    assert values[2] == pytest.approx([-(18 + 45 + 45) / 3, -10 / 3], abs=1e-4)
    assert written[3:5] == ["0 ||| malformed ||| LM0= -3 A= 0.000000 0.000000 ||| x", "malformed"]
    assert (summary.lines, summary.unsegmented, summary.malformed, summary.malformed_pairs) == (8, 1, 2, 1)
    assert summary.lowest == summary.lowest_sentences == 0
    assert summary.notices[1:] == [
        "1 hypothesis, whose phrases were not found, got the mean of the other hypotheses of the sentence.",
        "2 malformed lines got the value 0; a line without features stays unchanged.",
        "Left out of the table: 1 malformed line.",
    ]
    (files / "table").write_text("malformed\nmalformed\n")
    with pytest.raises(InputError, match="table: found 2 lines, all malformed, expected a phrase table"):
        added(files, on_error="keep")
    (files / "table").write_text(TABLE)
    del lines[3:5]
    (files / "nbest").write_text("\n".join(lines))
    sentence = (
        "nbest, line 3: found no phrases in the table that form the hypothesis and whose scores add up to "
        "TranslationModel0, expected the sentences and the table that the list was made with; check --source"
    )
    with pytest.raises(InputError, match=sentence):
        added(files)
    assert os.listdir(files / "out") == ["nbest"]


def test_inputs_that_do_not_fit_one_another_are_reported(files):
    for name, text, sentence in (
        ("source", "the big house &apos;s\n", "nbest, line 4: found the id 1, expected at most 0, as .*source has 1"),
        ("source", "the house &apos;s\n\nthe unheard\n", "nbest, line 1: found no phrases in the table"),
        ("table", TABLE.replace(" 0.135335", ""), "table, line 1: found 4 scores, expected at least 5; give the table"),
        ("nbest", NBEST.replace("LM0", "RNN0"), "nbest, line 2: found the feature RNN0, expected it to be new"),
        ("nbest", NBEST.replace("3=2 2=3", "3=2"), 'nbest, line 3: found the segmentation "0=0 1=1 3=2", expected'),
        ("nbest", NBEST.replace("-8 -2 -5", "-8 -2 -2 -2 -5"), "line 2: found 6 values of TranslationModel0, expected"),
        ("nbest", NBEST.replace("nModel0", "n0"), "line 1: found neither a segmentation nor the feature Translation"),
        ("nbest", "0 ||| a ||| 1\n", "nbest, line 1: found 3 fields, expected 4 to 6"),
        ("table", "", "table: found an empty file"),
    ):
        before = (files / name).read_text()
        (files / name).write_text(text)
        with pytest.raises(InputError, match=sentence):
            added(files)
        (files / name).write_text(before)
    assert os.listdir(files / "out") == []


def test_arguments_that_cannot_be_used_are_refused(files):
    for features, sentence in (
        ({"RNN_0": [5]}, "found features='RNN_0', expected a name without white space, _, = and |"),
        ({"RNN0": [0]}, "found features with the scores [0], expected numbers, 1 or more"),
        ({"RNN0": []}, "found features with the scores [], expected numbers, 1 or more"),
        ({}, "found no features, expected at least one"),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(sentence)):
            added(files, features)
    with pytest.raises(ConfigurationError, match="found on_error='skip', expected one of stop, keep"):
        added(files, on_error="skip")
    with pytest.raises(ConfigurationError, match="found one file for two purposes"):
        added(files, output="table")


def test_a_search_that_takes_too_long_is_given_up_without_blaming_the_files(files, monkeypatch):
    added(files)
    monkeypatch.setattr(hypothesis_phrases, "MAX_STATES", 1)
    sentence = "nbest, line 1: found no segmentation of the 5 words within 1 partial segmentations, .* let Moses write"
    with pytest.raises(InputError, match=sentence):
        added(files)


def test_hypotheses_of_a_sentence_without_any_phrases_get_the_lowest_value(files):
    line = "0 ||| la grande de la maison  ||| TranslationModel0= -77 -4 -1 -3.68888 ||| -1\n"
    (files / "nbest").write_text(line + line.replace("-77", "-78") + NBEST[NBEST.index("1 ||| ") :])
    summary, written = added(files, {"A": [5, 1]}, on_error="keep")
    values = [parse_features(line.split("|||")[2].encode())["A"] for line in written.splitlines()]
    assert values[:2] == [[-400, -400]] * 2 and values[3] == pytest.approx([-1, -1], abs=1e-4)  # of four words
    assert (summary.recovered, summary.unsegmented, summary.lowest, summary.lowest_sentences) == (1, 0, 2, 1)
    assert summary.notices[1] == (
        "2 hypotheses of 1 sentence got -100 for each word of the sentence, the lowest value: no phrases of any "
        "hypothesis of the sentence were found."
    )


def test_hypotheses_of_a_sentence_are_those_with_its_id(files):
    """A malformed line does not divide them, and equal sentences do not join them."""
    line = next(iter(LINES))
    unknown = line.replace("-1 -3.6", "-1.5 -3.6")  # no such sum
    (files / "source").write_text("the big house &apos;s\n" * 2)
    (files / "nbest").write_text("\n".join([line, "malformed", unknown, unknown.replace("0", "1", 1), ""]))
    summary, written = added(files, on_error="keep")
    values = [float(value) for value in re.findall("RNN0= (.*?) ", written)]
    assert values == pytest.approx([-18, -18, -400], abs=1e-4)
    assert (summary.unsegmented, summary.lowest, summary.lowest_sentences, summary.malformed) == (1, 1, 1, 1)


def test_a_feature_that_the_list_already_has_is_refused(files):
    with pytest.raises(InputError, match="nbest, line 1: found the feature TranslationModel0, .*one with --feature,"):
        added(files, {"TranslationModel0": [5]})


def test_the_default_feature_is_no_score_that_the_list_already_has(files):
    """As of a table whose fifth score is the phrase penalty of old versions of Moses."""
    (files / "table").write_text(TABLE.replace(" ||| 0-0", " 0.5 ||| 0-0"))
    (files / "nbest").write_text("0 ||| la grande de la maison ||| TranslationModel0= -2 -4 -1 -3.68888 -18 ||| -1\n")
    expected = "nbest, line 1: found 5 values of TranslationModel0, expected 4, as RNN0 is the score 5 of the table"
    with pytest.raises(InputError, match=rf"{expected}; give .*--feature=RNN0=6"):
        added(files)
    value = 2 * math.log(0.5)
    assert f" RNN0= {value:.6f} " in added(files, {"RNN0": [6]})[1]


def test_a_sentence_of_many_words_takes_no_more_than_its_phrases():
    scores = PhraseScores({"a b": {"x": [(-1.0,)]}, "c": {"y": [(-2.0,)]}}, num_scores=1, longest=1)
    words = ["a", "b", "d"] * 10_000  # of all spans, which are 450 million, only those of two words are looked up
    options = scores.options(words, {"x", "y", "d"})
    assert options.keys() == {"x", "d"}
    assert [(option.start, option.end) for option in options["x"][:2]] == [(0, 2), (3, 5)]
    assert len(options["x"]) == len(options["d"]) == 10_000
